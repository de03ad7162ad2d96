//! Lesson 4: coefficients to evaluations and back, over the subgroup and over a coset, in Fr and in
//! the field of a 31-bit prime.
//!
//! `cargo run --release --example 04_ntt_roundtrip_and_coset`

mod common;

use ark_ff::{FftField, Field};
use capstan::client::{Client, Direction, Fr, NttOptions, Order, Prime31, Result};

const LG_N: u32 = 10;

#[tokio::main]
async fn main() -> Result<()> {
    let server = common::server();
    let client = Client::connect(&server.target).await?;
    let coefficients = common::scalars(1 << LG_N);

    // In place, natural order on both sides: evaluations[j] = p(w^j).
    let mut values = coefficients.clone();
    let report = client.ntt(&mut values, NttOptions::forward()).await?;
    let w = Fr::get_root_of_unity(1 << LG_N).expect("2^10 divides r - 1");
    assert_eq!(values[3], evaluate(&coefficients, w.pow([3])));
    println!("2^{LG_N} on {}: {:?}", report.execution.device, report.timing);

    client.ntt(&mut values, NttOptions::inverse()).await?;
    assert_eq!(values, coefficients);

    // Over a coset g * <w>, the usual way to divide by a polynomial that vanishes on <w>.
    let g = Fr::GENERATOR;
    let options = NttOptions { coset: Some(g), ..NttOptions::forward() };
    client.ntt(&mut values, options).await?;
    assert_eq!(values[3], evaluate(&coefficients, g * w.pow([3])));

    // If the order of evaluations does not matter, such as for pointwise products, bit-reversed
    // order saves a pass on each side.
    let mut values = coefficients.clone();
    let forward = NttOptions { output_order: Order::BitReversed, ..NttOptions::forward() };
    let inverse = NttOptions { input_order: Order::BitReversed, ..NttOptions::inverse() };
    client.ntt(&mut values, forward).await?;
    client.ntt(&mut values, inverse).await?;
    assert_eq!(values, coefficients);

    // Rows are padded with zeros only on request: here 5 coefficients, evaluated at 8 points.
    let padded = client.ntt_padded(&coefficients[..5], 3, NttOptions::forward()).await?;
    assert_eq!(padded.values[0], coefficients[..5].iter().sum());

    // Over BabyBear, with elements of 4 bytes: evaluations[j] = p(w^j), with the root of unity that
    // Plonky3 uses, too. Options are the same, apart from the coset's generator.
    let field = Prime31::BabyBear;
    let coefficients: Vec<u32> = (0..1 << LG_N).map(|index| index * index + 1).collect();
    let transformed = client.ntt31(field, &coefficients, NttOptions::default()).await?;
    let modulus = u64::from(field.modulus());
    let w = power31(field.generator().into(), (modulus - 1) >> LG_N, modulus);
    for j in [0, 3, 1000] {
        let expected = evaluate31(&coefficients, power31(w, j, modulus), modulus);
        assert_eq!(u64::from(transformed.values[j as usize]), expected);
    }
    let inverse = NttOptions { direction: Direction::Inverse, ..NttOptions::default() };
    let back = client.ntt31(field, &transformed.values, inverse).await?;
    assert_eq!(back.values, coefficients);
    println!("roundtrips hold");
    Ok(())
}

fn power31(base: u64, exponent: u64, modulus: u64) -> u64 {
    (0..exponent.checked_ilog2().map_or(0, |bits| bits + 1)).rev().fold(1, |power, bit| {
        let factor = if exponent >> bit & 1 == 1 { base } else { 1 };
        power * power % modulus * factor % modulus
    })
}

fn evaluate31(coefficients: &[u32], x: u64, modulus: u64) -> u64 {
    coefficients.iter().rev().fold(0, |sum, next| (sum * x + u64::from(*next)) % modulus)
}

fn evaluate(coefficients: &[Fr], x: Fr) -> Fr {
    coefficients.iter().rev().fold(Fr::from(0), |sum, coefficient| sum * x + coefficient)
}
