//! Sums of integers, and vectors in other rows, on the host and with GPUs.

use capstan::{
    error::Result,
    field::FieldId,
    ops::{ConcatStep, IntSumStep, Operation, ReshapeStep, SliceStep},
    program::{StepKind, StepProblem, ValueId, ValueType, VectorShape},
    verify::Verification,
};
use num_bigint::{BigInt, BigUint};
use rand::{SeedableRng, rngs::StdRng};

use crate::{
    integers::{KINDS, Kind, Rows, ids, int_mul, integer, products, value},
    rig::some_of,
};

fn int_sum(inputs: &[u32], factors: &[i64], length: u64) -> Operation {
    IntSumStep { inputs: ids(inputs), factors: factors.to_vec(), length }.into()
}

fn reshape(input: u32, rows: u32) -> Operation {
    ReshapeStep { input: ValueId(input), rows }.into()
}

/// The sum modulo 2^(32 length) of the integers in a row.
fn sum(row: usize, inputs: &[Rows], factors: &[i64], length: usize) -> Vec<u32> {
    let terms = inputs.iter().zip(factors);
    let sum: BigInt =
        terms.map(|(rows, factor)| BigInt::from(BigUint::from_slice(&rows[row])) * factor).sum();
    let modulus = BigInt::from(1) << (32 * length);
    let sum = ((sum % &modulus) + &modulus) % &modulus;
    let mut limbs = sum.to_biguint().expect("not negative").to_u32_digits();
    limbs.resize(length, 0);
    limbs
}

#[test]
fn sums_of_every_kind_of_integer_wrap_around() {
    let mut rng = StdRng::seed_from_u64(6);
    let largest = i64::from(u32::MAX);
    let factors: [&[i64]; 5] =
        [&[1, 1], &[-1], &[largest], &[1 << 31, -largest / 4, 77], &[1, -2, 3, -4, 5, -6, 7, 0]];
    for (number, factors) in factors.into_iter().enumerate() {
        for (rows, length) in [(1, 1_usize), (3, 5), (100, 10), (2, 5000)] {
            for kind in some_of(KINDS, 3, number + rows) {
                let mut input = |term: usize| -> Rows {
                    let length = [length, length + 3, length.div_ceil(2)][(term + number) % 3];
                    (0..rows).map(|_| integer(kind, length, &mut rng)).collect()
                };
                let inputs: Vec<_> = (0..factors.len()).map(&mut input).collect();
                let of_inputs: Vec<_> = (0..inputs.len() as u32).collect();
                let steps = vec![int_sum(&of_inputs, factors, length as u64)];
                let made = value(&inputs, steps, Verification::None).unwrap();
                let expected: Rows =
                    (0..rows).map(|row| sum(row, &inputs, factors, length)).collect();
                assert!(made == expected, "{factors:?}, {rows} rows of {length}, {kind:?}");
            }
        }
    }
}

#[test]
fn many_short_products_are_added_and_paired() {
    let mut rng = StdRng::seed_from_u64(7);
    let rows =
        |rng: &mut StdRng| -> Rows { (0..300).map(|_| integer(Kind::Random, 21, rng)).collect() };
    let [a, b] = [rows(&mut rng), rows(&mut rng)];
    // a b - 3 b^2, whose rows are then joined in pairs, and the second ones of the pairs.
    let steps = vec![
        int_mul(0, 1),
        int_mul(1, 1),
        int_sum(&[2, 3], &[1, -3], 43),
        reshape(4, 150),
        SliceStep { input: ValueId(5), offset: 43, length: 43 }.into(),
    ];
    for verify in [Verification::None, Verification::Full] {
        let made = value(&[a.clone(), b.clone()], steps.clone(), verify).unwrap();
        let factors = [products(&a, &b), products(&b, &b)];
        let expected: Rows =
            (0..150).map(|pair| sum(2 * pair + 1, &factors, &[1, -3], 43)).collect();
        assert!(made == expected, "{verify:?}");
    }
}

#[test]
fn rows_are_divided_and_joined() {
    let a: Rows = vec![(0..6).collect(), (6..12).collect()];
    let flat: Vec<u32> = (0..12).collect();
    for (rows, length) in [(1, 12), (2, 6), (3, 4), (4, 3), (6, 2), (12, 1)] {
        let expected: Rows = flat.chunks(length).map(<[u32]>::to_vec).collect();
        // With and without another reader of the input.
        let made = value(std::slice::from_ref(&a), vec![reshape(0, rows)], Verification::None);
        assert_eq!(made.unwrap(), expected);
        let both =
            vec![reshape(0, rows), reshape(1, 2), ConcatStep { inputs: ids(&[0, 2]) }.into()];
        let made = value(std::slice::from_ref(&a), both, Verification::Full).unwrap();
        assert_eq!(made, a.iter().map(|row| row.repeat(2)).collect::<Rows>());
    }
}

#[test]
fn terms_and_rows_that_do_not_fit_are_refused() {
    let shape = |field, rows: u32, length| {
        let shape = VectorShape::row(field, length).unwrap().with_rows(rows).unwrap();
        ValueType::Vector(shape)
    };
    let integers = |rows, length| shape(FieldId::Integers, rows, length);
    let refuses = |found: Result<ValueType, StepProblem>, name, message: &str| {
        let refusal = found.expect_err("refused").of_step(1, name).to_string();
        assert!(refusal.contains(message), "{refusal}, not {message}");
    };
    let sum = |inputs: &[ValueType], factors: &[i64]| {
        let inputs_of_step = vec![ValueId(0); inputs.len()];
        IntSumStep { inputs: inputs_of_step, factors: factors.to_vec(), length: 4 }.infer(inputs)
    };
    let one = integers(2, 5);
    let all = u32::MAX.into();
    assert_eq!(sum(&[one, integers(2, 0)], &[all, 0]), Ok(integers(2, 4)));
    refuses(sum(&[one; 9], &[0; 9]), "int_sum", "int_sum.inputs: too long: at most 8, got 9");
    refuses(sum(&[one], &[]), "int_sum", "int_sum.factors: wrong length: expected 1, got 0");
    let too_large = "int_sum.factors: magnitudes must add up to at most 4294967295";
    refuses(sum(&[one, one], &[all, -1]), "int_sum", too_large);
    refuses(sum(&[one], &[i64::MIN]), "int_sum", too_large);
    refuses(sum(&[one, integers(1, 5)], &[1, 1]), "int_sum", "int_sum.inputs[1]: wrong number of");
    let other = shape(FieldId::Gf2, 2, 5);
    refuses(sum(&[other], &[1]), "int_sum", "int_sum.inputs[0]: is a vector over gf2");
    let rows = |rows| ReshapeStep { input: ValueId(0), rows }.infer(&[integers(2, 6)]);
    assert_eq!(rows(3), Ok(integers(3, 4)));
    // More elements than a row of the input may have.
    let joined = ReshapeStep { input: ValueId(0), rows: 1 }.infer(&[integers(65536, 257)]);
    assert_eq!(joined, Ok(integers(1, 65536 * 257)));
    refuses(rows(0), "reshape", "reshape.rows: must not be zero");
    refuses(rows(5), "reshape", "reshape.rows: must divide the number of elements, 12");
    let many = ReshapeStep { input: ValueId(0), rows: 1 << 17 }.infer(&[integers(1, 1 << 17)]);
    refuses(many, "reshape", "reshape.rows: must be at most 65536");
}
