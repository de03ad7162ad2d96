//! Lesson 14: products and sums of integers. A program raises integers to a power and keeps the
//! limbs of all values on the server.
//!
//! `cargo run --release --example 14_integers`

mod common;

use capstan::client::{
    BigUint, Client, IntegerVector, ProgramBuilder, ProgramRun, Result, RunOptions, Verification,
};

#[tokio::main]
async fn main() -> Result<()> {
    let server = common::server();
    let client = Client::connect(&server.target).await?;

    // One product, of a Mersenne prime and a power of ten.
    let prime = (BigUint::from(1_u32) << 127_u32) - 1_u32;
    let ten = BigUint::from(10_u32).pow(1000);
    let options = RunOptions { verify: Verification::Probabilistic, ..RunOptions::default() };
    let result = client.int_mul(&prime, &ten, options).await?;
    assert_eq!(result.product, &prime * &ten);
    println!("{} bits in {:?}", result.product.bits(), result.timing.total);

    // Vectors hold integers in limbs of 32 bits, one integer a row. Each square is the input of the
    // next step, and only the last one is sent. Squares take less time than other products.
    let bases: Vec<_> = [3_u32, 10, 1234].map(BigUint::from).into();
    let rows = IntegerVector::new(&bases);
    let mut program = ProgramBuilder::new();
    let input = program.input_integers(3, rows.length())?;
    let mut power = input;
    for _ in 0..12 {
        power = program.int_mul(power, power)?;
    }
    let program = program.build()?;
    let run = ProgramRun::new(&program).input(input, &rows).send(power);
    let result = client.run(run).await?;
    let powers = result.integers(power)?;
    assert_eq!(powers, bases.iter().map(|base| base.pow(1 << 12)).collect::<Vec<_>>());

    // A slice from limb k on divides by 2^(32 k); padding and concatenation shift to the left.
    let mut program = ProgramBuilder::new();
    let input = program.input_integers(1, 4)?;
    let high = program.slice(input, 2, 2)?;
    let program = program.build()?;
    let row = IntegerVector::from(&prime);
    let run = ProgramRun::new(&program).input(input, &row).send(high);
    assert_eq!(client.run(run).await?.integers(high)?, [prime >> 64_u32]);

    // Neighbours are added: four rows of two limbs become two rows of four, whose halves are
    // neighbours. A sum has any number of limbs, here three; a negative one would wrap around.
    let integers = [1_u64, 2, 30, u64::MAX].map(BigUint::from);
    let rows = IntegerVector::new(&integers);
    let mut program = ProgramBuilder::new();
    let input = program.input_integers(4, rows.length())?;
    let pairs = program.reshape(input, 2)?;
    let (left, right) = (program.slice(pairs, 0, 2)?, program.slice(pairs, 2, 2)?);
    let sums = program.int_sum(&[left, right], &[10, 1], 3)?;
    let program = program.build()?;
    let run = ProgramRun::new(&program).input(input, &rows).send(sums);
    let [a, b, c, d] = &integers;
    let expected = [a * 10_u32 + b, c * 10_u32 + d];
    assert_eq!(client.run(run).await?.integers(sums)?, expected);

    // A product of more than 2^26 limbs is refused before anything is sent.
    let mut program = ProgramBuilder::new();
    let long = program.input_integers(1, 1 << 26)?;
    println!("{}", program.int_mul(long, long).expect_err("too long"));
    Ok(())
}
