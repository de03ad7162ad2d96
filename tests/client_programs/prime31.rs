//! Transforms and programs over fields of a prime below 2^31.

use capstan::client::{
    Client, Direction, NttOptions, NttTransform, Order, Prime31, ProgramBuilder, ProgramRun,
    RunOptions, ScalarEncoding, Verification,
};

use crate::client_programs::{common::server, message};

/// `g^((p-1)/2^lg_n)`.
fn root(field: Prime31, lg_n: u32) -> u64 {
    power(field, field.generator().into(), u64::from(field.modulus() - 1) >> lg_n)
}

fn power(field: Prime31, mut base: u64, mut exponent: u64) -> u64 {
    let (p, mut power) = (u64::from(field.modulus()), 1);
    while exponent > 0 {
        power = if exponent & 1 == 1 { power * base % p } else { power };
        (base, exponent) = (base * base % p, exponent >> 1);
    }
    power
}

/// The value of the polynomial with these coefficients.
fn value(field: Prime31, coefficients: &[u32], point: u64) -> u32 {
    let p = u64::from(field.modulus());
    coefficients.iter().rev().fold(0, |value, c| (value * point + u64::from(*c)) % p) as u32
}

fn row(field: Prime31, length: usize) -> Vec<u32> {
    (0..length as u32).map(|i| i.wrapping_mul(0x9e37_79b9) % field.modulus()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn transforms_are_values_at_powers_of_the_root() {
    let server = server();
    let client = Client::connect(&server.target).await.unwrap();
    for &field in Prime31::ALL {
        // In one message, and in chunks.
        for lg_n in [3, 19] {
            let coefficients = row(field, 1 << lg_n);
            let options = NttOptions {
                coset: Some(3),
                output_order: Order::BitReversed,
                verify: Verification::Probabilistic,
                ..NttOptions::default()
            };
            let transformed = client.ntt31(field, &coefficients, options).await.unwrap().values;
            for j in [0, 1, (1_usize << lg_n) - 1] {
                let point = 3 * power(field, root(field, lg_n), j as u64);
                let at = j.reverse_bits() >> (usize::BITS - lg_n);
                let expected = value(field, &coefficients, point % u64::from(field.modulus()));
                assert_eq!(transformed[at], expected, "{field} 2^{lg_n} at {j}");
            }
            let options = NttOptions {
                direction: Direction::Inverse,
                coset: Some(3),
                input_order: Order::BitReversed,
                verify: Verification::Full,
                ..NttOptions::default()
            };
            let back = client.ntt31(field, &transformed, options).await.unwrap();
            assert!(back.values == coefficients, "{field} 2^{lg_n} and back");
            assert_eq!(back.report.execution.verified, Verification::Full);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_padded_and_may_be_in_montgomery_form() {
    let server = server();
    let client = Client::connect(&server.target).await.unwrap();
    let field = Prime31::KoalaBear;
    let p = u64::from(field.modulus());
    let rows = row(field, 10);
    let options = || NttOptions { batch: 2, lg_n: Some(3), ..NttOptions::default() };
    let values = client.ntt31(field, &rows, options()).await.unwrap().values;
    for (coefficients, values) in rows.chunks(5).zip(values.chunks(8)) {
        for (j, found) in values.iter().enumerate() {
            let point = power(field, root(field, 3), j as u64);
            assert_eq!(*found, value(field, coefficients, point));
        }
    }
    let montgomery = |x: &u32| (((u64::from(*x) << 32) % p) as u32).to_le_bytes();
    let bytes: Vec<u8> = rows.iter().flat_map(montgomery).collect();
    let encoding = ScalarEncoding::Montgomery31;
    let encoded = client.ntt31_bytes(field, encoding, &bytes, options()).await.unwrap().bytes;
    assert_eq!(*encoded, values.iter().flat_map(montgomery).collect::<Vec<_>>());
    let wrong = client.ntt31_bytes(field, ScalarEncoding::Canonical, &bytes, options()).await;
    assert!(message(wrong).contains("encoding"));
    let refused = client.ntt31(field, &[1, field.modulus()], NttOptions::default()).await;
    assert!(message(refused).contains("input[1]"));
    let refused = client.ntt31(Prime31::P7340033, &vec![0; 1 << 21], NttOptions::default()).await;
    assert!(message(refused).contains("must be at most 20"));
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_multiply_polynomials() {
    let server = server();
    let client = Client::connect(&server.target).await.unwrap();
    for &field in Prime31::ALL {
        let length = 100;
        let mut program = ProgramBuilder::new();
        let a = program.input_over(field, 1, length).unwrap();
        let b = program.input_over(field, 1, length).unwrap();
        let evaluations = NttTransform {
            lg_n: Some(8),
            output_order: Order::BitReversed,
            ..NttTransform::forward()
        };
        let [at_a, at_b] = [a, b].map(|input| program.ntt(input, evaluations).unwrap());
        let product = program.multiply(at_a, at_b).unwrap();
        let back = NttTransform {
            direction: Direction::Inverse,
            input_order: Order::BitReversed,
            ..NttTransform::forward()
        };
        let product = program.ntt(product, back).unwrap();
        let values = [a, b, product].map(|input| program.evaluate(input, 12345).unwrap());
        let scaled = program.scale(a, 2).unwrap();
        let powers = program.powers_over(field, 1, 2, 3).unwrap();
        let constant = program.constant_over(field, &[4, 5]).unwrap();
        let program = program.build().unwrap();
        let given = [row(field, 100), row(field, 100).into_iter().rev().collect()];
        let run = ProgramRun::new(&program).input(a, &given[0]).input(b, &given[1]);
        let outputs = [product, scaled, powers, constant].into_iter().chain(values);
        let run = outputs.fold(run, ProgramRun::send).keep(product);
        let options = RunOptions { verify: Verification::Probabilistic, ..RunOptions::default() };
        let result = client.run_with(run, options).await.unwrap();
        let p = u64::from(field.modulus());
        let coefficient = |k: usize| {
            let pairs = (0..100).filter(|i| k >= *i && k - i < 100);
            let terms = pairs.map(|i| u64::from(given[0][i]) * u64::from(given[1][k - i]) % p);
            (terms.sum::<u64>() % p) as u32
        };
        let product_found = result.vector31(product).unwrap();
        assert_eq!(product_found, (0..256).map(coefficient).collect::<Vec<_>>(), "{field}");
        let [x, y, xy] = values.map(|value| u64::from(result.vector31(value).unwrap()[0]));
        assert_eq!(x * y % p, xy, "{field}");
        let doubled = given[0].iter().map(|x| (2 * u64::from(*x) % p) as u32);
        assert_eq!(result.vector31(scaled).unwrap(), doubled.collect::<Vec<_>>());
        assert_eq!(result.vector31(powers).unwrap(), [1, 2, 4]);
        assert_eq!(result.vector31(constant).unwrap(), [4, 5]);
        assert!(result.vector(product).is_err(), "not over Fr");
        let kept = result.kept(product).unwrap();
        assert_eq!((kept.encoding, kept.count), (ScalarEncoding::Canonical31, 256));
        client.release_vector(kept.id).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_builder_refuses_steps_over_other_fields() {
    let mut program = ProgramBuilder::new();
    let f = program.input_over(Prime31::BabyBear, 1, 8).unwrap();
    let g = program.input_over(Prime31::KoalaBear, 1, 8).unwrap();
    assert!(message(program.add(f, g)).contains("is a vector over another field"));
    let refused = message(program.divide_by_linear(f, 3.into()));
    assert!(refused.contains("is a vector over babybear"), "{refused}");
    let refused = message(program.evaluate(f, capstan::client::Fr::from(3)));
    assert!(refused.contains("wrong length: expected 4, got 32"), "{refused}");
    let refused = message(program.evaluate(f, u32::MAX));
    assert!(refused.contains("not canonical"), "{refused}");
}
