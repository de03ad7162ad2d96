//! Products of polynomials in one call.

use ark_poly::{DenseUVPolynomial, univariate::DensePolynomial};
use capstan::client::{
    Client, Fr, PolyMulOptions, PolyMulResult, PolyReduction, Prime31, ProgramBuilder, Verification,
};

use crate::client_programs::{
    common::{scalars, server},
    message,
};

fn options(reduction: PolyReduction, batch: u32, verify: Verification) -> PolyMulOptions {
    PolyMulOptions { reduction, batch, verify, ..PolyMulOptions::default() }
}

fn product(a: &[Fr], b: &[Fr]) -> Vec<Fr> {
    let [a, b] = [a, b].map(DensePolynomial::from_coefficients_slice);
    a.naive_mul(&b).coeffs
}

#[tokio::test(flavor = "multi_thread")]
async fn products_over_fr_equal_those_of_arkworks() {
    let server = server();
    let client = Client::connect(&server.target).await.unwrap();
    let (a, b) = (scalars(600), scalars(250));
    let of = async |a: &[Fr], b: &[Fr], options| -> PolyMulResult<Fr> {
        client.poly_mul(a, b, options).await.unwrap()
    };
    let whole = of(&a, &b, options(PolyReduction::None, 1, Verification::Probabilistic)).await;
    let expected = product(&a, &b);
    assert!(whole.coefficients == expected);
    assert_eq!(whole.execution.verified, Verification::Probabilistic);
    assert_eq!(format!("{whole:?}"), "PolyMulResult(849 coefficients)");
    let cyclic = of(&a, &b, options(PolyReduction::Cyclic(512), 1, Verification::Full)).await;
    let mut folded = expected[..512].to_vec();
    folded.iter_mut().zip(&expected[512..]).for_each(|(low, high)| *low += high);
    assert!(cyclic.coefficients == folded);
    let negacyclic = options(PolyReduction::Negacyclic(512), 1, Verification::None);
    let negacyclic = of(&a, &b, negacyclic).await;
    let mut folded = expected[..512].to_vec();
    folded.iter_mut().zip(&expected[512..]).for_each(|(low, high)| *low -= high);
    assert!(negacyclic.coefficients == folded);
    // Squares, row by row; short ones, which no transform computes.
    for rows in [2, 150] {
        let squares = of(&a, &a, options(PolyReduction::None, rows, Verification::Full)).await;
        let expected = a.chunks(600 / rows as usize).flat_map(|row| product(row, row));
        assert!(squares.coefficients == expected.collect::<Vec<_>>(), "{rows} rows");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn products_of_long_polynomials_are_sent_in_chunks() {
    let server = server();
    let client = Client::connect(&server.target).await.unwrap();
    let field = Prime31::BabyBear;
    let p = u64::from(field.modulus());
    let length = 300_000;
    let a: Vec<u32> =
        (0..length).map(|i: u32| i.wrapping_mul(0x9e37_79b9) % field.modulus()).collect();
    let mut b = vec![0; 250_000];
    (b[0], b[249_999]) = (3, field.modulus() - 1);
    let checked = options(PolyReduction::None, 1, Verification::Probabilistic);
    let found = client.poly_mul31(field, &a, &b, checked).await.unwrap().coefficients;
    let at = |i: usize| a.get(i).map_or(0, |a| u64::from(*a));
    let expected = |i: usize| {
        let shifted = i.checked_sub(249_999).map_or(0, at);
        ((3 * at(i) + p - shifted) % p) as u32
    };
    assert!(found == (0..549_999).map(expected).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn factors_that_do_not_suit_are_refused_before_they_are_sent() {
    let server = server();
    let client = Client::connect(&server.target).await.unwrap();
    let a = scalars(6);
    let of = async |a: &[Fr], b: &[Fr], reduction, batch| {
        message(client.poly_mul(a, b, options(reduction, batch, Verification::None)).await)
    };
    let refused = of(&a, &a[..5], PolyReduction::None, 2).await;
    assert_eq!(refused, "b: wrong length: expected 4, got 5");
    let refused = of(&[], &a, PolyReduction::None, 1).await;
    assert!(refused.contains("poly_mul.inputs[0]: must have at least one element"), "{refused}");
    let refused = of(&a, &a, PolyReduction::Cyclic(0), 1).await;
    assert!(refused.contains("poly_mul.cyclic: must not be zero"), "{refused}");
    let refused = of(&a, &a, PolyReduction::None, 0).await;
    assert!(refused.contains("input.rows: must not be zero"), "{refused}");
    let mut program = ProgramBuilder::new();
    let f = program.input_over(Prime31::BabyBear, 2, 8).unwrap();
    let g = program.input_over(Prime31::KoalaBear, 2, 8).unwrap();
    let h = program.input_over(Prime31::BabyBear, 1, 8).unwrap();
    let refused = message(program.poly_mul(f, g, PolyReduction::None));
    assert!(refused.contains("inputs[1]: is a vector over another field"), "{refused}");
    let refused = message(program.poly_mul(f, h, PolyReduction::None));
    assert!(refused.contains("inputs[1]: wrong number of rows: expected 2, got 1"), "{refused}");
    let product = program.poly_mul(f, f, PolyReduction::None).unwrap();
    assert_eq!((product.rows(), product.length()), (2, 15));
    let product = program.poly_mul(f, f, PolyReduction::Negacyclic(5)).unwrap();
    assert_eq!((product.rows(), product.length()), (2, 5));
}
