//! Products of integers on a server.

use capstan::client::{
    BigUint, Client, InputElements, IntegerVector, ProgramBuilder, ProgramRun, RunOptions,
    ScalarEncoding, Verification,
};

use crate::client_programs::{common::server, message};

/// An integer of this number of bits.
fn integer(bits: u64, seed: u32) -> BigUint {
    let word = |at: u32| (at + 1).wrapping_mul(0x9e37_79b9 ^ seed).rotate_left(at % 31);
    let limbs = (0..bits.div_ceil(32) as u32).map(word).collect();
    let integer = BigUint::new(limbs) | BigUint::from(1_u32) << (bits - 1);
    integer & ((BigUint::from(1_u32) << bits) - 1_u32)
}

#[tokio::test(flavor = "multi_thread")]
async fn products_and_squares_equal_those_of_num_bigint() {
    let server = server();
    let client = Client::connect(&server.target).await.unwrap();
    let zero = BigUint::default();
    for (a, b) in [
        (zero.clone(), zero.clone()),
        (integer(1, 1), integer(900, 2)),
        (integer(64, 3), zero),
        (integer(5000, 4), integer(4001, 5)),
        // Long enough for transforms.
        (integer(300_000, 6), integer(270_000, 7)),
    ] {
        for verify in [Verification::None, Verification::Probabilistic, Verification::Full] {
            let options = || RunOptions { verify, ..RunOptions::default() };
            let result = client.int_mul(&a, &b, options()).await.unwrap();
            assert!(result.product == &a * &b, "{} and {} bits", a.bits(), b.bits());
            assert_eq!(result.execution.verified, verify);
            let square = client.int_mul(&a, &a.clone(), options()).await.unwrap();
            assert!(square.product == &a * &a, "square of {} bits", a.bits());
        }
    }
    let result = client.int_mul(&integer(3, 1), &integer(3, 1), RunOptions::default()).await;
    assert!(format!("{:?}", result.unwrap()).ends_with(" bits)"), "digits may be secret");
}

#[tokio::test(flavor = "multi_thread")]
async fn integers_are_stored_multiplied_row_by_row_and_shifted() {
    let server = server();
    let client = Client::connect(&server.target).await.unwrap();
    let a: Vec<_> = (0..3).map(|seed| integer(100 + 40 * u64::from(seed), seed)).collect();
    let b: Vec<_> = (5..8).map(|seed| integer(64, seed)).collect();
    let (rows_of_a, rows_of_b) = (IntegerVector::new(&a), IntegerVector::new(&b));
    assert_eq!((rows_of_a.rows(), rows_of_a.length(), rows_of_b.length()), (3, 6, 2));
    assert_eq!(format!("{rows_of_a:?}"), "IntegerVector(3 integers of 6 limbs)");
    let stored = client.put_vector(&rows_of_a).await.unwrap();
    assert_eq!((stored.encoding, stored.count), (ScalarEncoding::Limbs32, 18));
    let mut program = ProgramBuilder::new();
    let left = program.input_integers(3, 6).unwrap();
    let right = program.input_integers(3, 2).unwrap();
    let product = program.int_mul(left, right).unwrap();
    // Without its two lowest limbs, squared.
    let high = program.slice(product, 2, 6).unwrap();
    let square = program.int_mul(high, high).unwrap();
    let program = program.build().unwrap();
    let run = ProgramRun::new(&program)
        .input(left, InputElements::stored(stored.id, 0))
        .input(right, &rows_of_b)
        .send(product)
        .send(square);
    let result = client.run(run).await.unwrap();
    let products: Vec<_> = a.iter().zip(&b).map(|(a, b)| a * b).collect();
    assert_eq!(result.integers(product).unwrap(), products);
    let squares: Vec<_> = products.iter().map(|product| (product >> 64_u32).pow(2)).collect();
    assert_eq!(result.integers(square).unwrap(), squares);
    assert!(result.vector31(product).is_err() && result.integers(left).is_err());
    client.release_vector(stored.id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn vectors_that_are_not_integers_are_refused_before_they_are_sent() {
    let mut program = ProgramBuilder::new();
    let empty = program.input_integers(1, 0).unwrap();
    let one = program.input_integers(1, 1).unwrap();
    let two_rows = program.input_integers(2, 1).unwrap();
    let of_fr = program.input(1).unwrap();
    let long = program.input_integers(1, 1 << 26).unwrap();
    let mut refused = |a, b, expected: &str| {
        let problem = message(program.int_mul(a, b));
        assert!(problem.contains(expected), "{problem}, not {expected}");
    };
    refused(one, empty, "int_mul.inputs[1]: must have at least one element");
    refused(one, two_rows, "int_mul.inputs[1]: wrong number of rows: expected 1, got 2");
    refused(of_fr, of_fr, "int_mul.inputs[0]: is a vector over bls12-381-fr");
    refused(one, of_fr, "int_mul.inputs[1]: ");
    refused(long, one, "the product has 67108865 limbs: at most 67108864 are possible");
}

#[tokio::test(flavor = "multi_thread")]
async fn sums_wrap_around_and_rows_are_paired() {
    let server = server();
    let client = Client::connect(&server.target).await.unwrap();
    let integers: Vec<_> = (0..4).map(|seed| integer(90 + u64::from(seed), seed)).collect();
    let rows = IntegerVector::new(&integers);
    let mut program = ProgramBuilder::new();
    let input = program.input_integers(4, 3).unwrap();
    let triple = program.int_sum(&[input], &[3], 4).unwrap();
    let negative = program.int_sum(&[triple, input], &[1, -4], 3).unwrap();
    // Rows 0 and 1 become one row, as do rows 2 and 3.
    let pairs = program.reshape(input, 2).unwrap();
    let refused = message(program.int_sum(&[input, pairs], &[1, 1], 3));
    assert!(refused.contains("int_sum.inputs[1]: wrong number of rows"), "{refused}");
    let refused = message(program.int_sum(&[input], &[1 << 32], 3));
    assert!(refused.contains("int_sum.factors: magnitudes must add up to at most"), "{refused}");
    let refused = message(program.reshape(input, 5));
    assert!(refused.contains("reshape.rows: must divide the number of elements, 12"), "{refused}");
    let program = program.build().unwrap();
    let run = ProgramRun::new(&program).input(input, &rows).send(triple).send(negative).send(pairs);
    let result = client.run(run).await.unwrap();
    let triples: Vec<_> = integers.iter().map(|integer| integer * 3_u32).collect();
    assert_eq!(result.integers(triple).unwrap(), triples);
    let modulus = BigUint::from(1_u32) << 96_u32;
    let negatives: Vec<_> = integers.iter().map(|integer| &modulus - integer).collect();
    assert_eq!(result.integers(negative).unwrap(), negatives);
    let pairs_of = |pair: &[BigUint]| &pair[0] + (&pair[1] << 96_u32);
    let expected: Vec<_> = integers.chunks(2).map(pairs_of).collect();
    assert_eq!(result.integers(pairs).unwrap(), expected);
}
