//! Lesson 12: products of polynomials, over Fr and over a field of a 31-bit prime, whole or modulo
//! X^n - 1 or X^n + 1.
//!
//! `cargo run --release --example 12_polynomials`

mod common;

use capstan::client::{
    Client, Fr, PolyMulOptions, PolyReduction, Prime31, ProgramBuilder, ProgramRun, Result,
    Verification,
};

#[tokio::main]
async fn main() -> Result<()> {
    let server = common::server();
    let client = Client::connect(&server.target).await?;

    // Coefficients, the lowest first. Lengths need not be powers of two, nor equal.
    let (a, b) = (common::scalars(1000), common::scalars(300));
    let checked =
        PolyMulOptions { verify: Verification::Probabilistic, ..PolyMulOptions::default() };
    let product = client.poly_mul(&a, &b, checked).await?;
    assert_eq!(product.coefficients.len(), 1299);
    let x = Fr::from(7);
    assert_eq!(value(&product.coefficients, x), value(&a, x) * value(&b, x));
    println!("1000 by 300 on {}: {:?}", product.execution.device, product.timing);

    // Modulo X^n + 1, as in schemes over rings: X^n is -1. Longer factors are reduced first.
    let field = Prime31::BabyBear;
    let ring =
        PolyMulOptions { reduction: PolyReduction::Negacyclic(4), ..PolyMulOptions::default() };
    // (1 + 2 X^3) * (3 + X) = 3 + X + 6 X^3 + 2 X^4
    let product = client.poly_mul31(field, &[1, 0, 0, 2], &[3, 1], ring.clone()).await?;
    assert_eq!(product.coefficients, [1, 1, 0, 6]);

    // Many products in one call: each factor is a batch of rows. The same memory twice is squared,
    // which sends and transforms it once.
    let rows = [1, 1, 0, 0, 0, 0, 0, 5];
    let squares =
        client.poly_mul31(field, &rows, &rows, PolyMulOptions { batch: 2, ..ring }).await?;
    // (1 + X)^2, and 25 X^6, which is -25 X^2.
    assert_eq!(squares.coefficients, [1, 2, 1, 0, 0, 0, field.modulus() - 25, 0]);

    // As a step of a program: the product stays on the server, and only its value is sent.
    let mut program = ProgramBuilder::new();
    let [f, g] = [a.len(), b.len()].map(|length| program.input(length as u64));
    let (f, g) = (f?, g?);
    let cyclic = program.poly_mul(f, g, PolyReduction::Cyclic(1000))?;
    let at_one = program.evaluate(cyclic, Fr::from(1))?;
    let program = program.build()?;
    let run = ProgramRun::new(&program).input(f, &a).input(g, &b).send(at_one);
    // 1 is a root of X^n - 1, so the reduction does not change the value there.
    let one = Fr::from(1);
    assert_eq!(client.run(run).await?.vector(at_one)?, [value(&a, one) * value(&b, one)]);
    println!("products are right");
    Ok(())
}

fn value(coefficients: &[Fr], x: Fr) -> Fr {
    coefficients.iter().rev().fold(Fr::from(0), |sum, coefficient| sum * x + coefficient)
}
