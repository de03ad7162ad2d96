//! Products of polynomials, against products coefficient by coefficient.

use capstan::{
    curve::{Fr, scalars::ScalarEncoding},
    error::EngineError,
    exec::start_run,
    field::{FieldId, Prime31},
    ops::{InputStep, OperationProgram, PolyMulStep, PolyReduction},
    program::{InputSpec, OutputKind, OutputSpec, ValueId},
    verify::Verification,
};

use crate::{
    faulty_engine::{EngineMode, faulty_executor},
    prime31::Call31,
    rig::{Call, EXECUTOR, Rows, random_rows},
};

use PolyReduction::{Cyclic, Negacyclic, None as Whole};

/// Lengths of factors: degenerate, and on both sides of the length from which transforms are used.
const LENGTHS: [(usize, usize); 7] =
    [(1, 1), (1, 6), (4, 4), (9, 3), (40, 130), (128, 128), (257, 150)];

/// Degrees that are powers of two or not, above and below these lengths.
const REDUCTIONS: [PolyReduction; 11] = [
    Whole,
    Cyclic(1),
    Negacyclic(1),
    Cyclic(3),
    Negacyclic(3),
    Cyclic(64),
    Negacyclic(64),
    Cyclic(200),
    Negacyclic(200),
    Cyclic(512),
    Negacyclic(256),
];

/// Arithmetic that shares nothing with the steps'.
trait Coefficient: Copy {
    /// `self + a b`, or `self - a b`.
    fn plus(self, a: Self, b: Self, is_negative: bool) -> Self;
}

impl Coefficient for Fr {
    fn plus(self, a: Self, b: Self, is_negative: bool) -> Self {
        if is_negative { self - a * b } else { self + a * b }
    }
}

/// A value modulo a prime.
#[derive(Clone, Copy)]
struct Word {
    value: u64,
    prime: u64,
}

impl Coefficient for Word {
    fn plus(self, a: Self, b: Self, is_negative: bool) -> Self {
        let product = a.value * b.value % self.prime;
        let term = if is_negative { self.prime - product } else { product };
        Self { value: (self.value + term) % self.prime, ..self }
    }
}

fn product<C: Coefficient>(zero: C, a: &[C], b: &[C], reduction: PolyReduction) -> Vec<C> {
    let length = reduction.degree().map_or(a.len() + b.len() - 1, |degree| degree as usize);
    let mut out = vec![zero; length];
    for (i, a) in a.iter().enumerate() {
        for (j, b) in b.iter().enumerate() {
            let is_negative = matches!(reduction, Negacyclic(_)) && (i + j) / length % 2 == 1;
            let at = &mut out[(i + j) % length];
            *at = at.plus(*a, *b, is_negative);
        }
    }
    out
}

fn product31(prime: Prime31, a: &[u32], b: &[u32], reduction: PolyReduction) -> Vec<u32> {
    let word = |value: u32| Word { value: value.into(), prime: prime.modulus().into() };
    let words = |values: &[u32]| -> Vec<Word> { values.iter().copied().map(word).collect() };
    let words = product(word(0), &words(a), &words(b), reduction);
    words.into_iter().map(|word| word.value as u32).collect()
}

/// A third of the reductions, another one for each `number`.
fn some_reductions(number: usize) -> impl Iterator<Item = PolyReduction> {
    REDUCTIONS.into_iter().skip(number % 3).step_by(3)
}

fn step(a: u32, b: u32, reduction: PolyReduction) -> PolyMulStep {
    PolyMulStep { inputs: vec![ValueId(a), ValueId(b)], reduction }
}

/// Random elements, zeros, and the largest elements everywhere.
fn samples(prime: Prime31, count: usize, seed: u32) -> Vec<u32> {
    let p = prime.modulus();
    match seed {
        0 => vec![0; count],
        1 => vec![p - 1; count],
        _ => (0..count as u32).map(|i| (i + 1).wrapping_mul(0x9e37_79b9 ^ seed) % p).collect(),
    }
}

#[test]
fn products_over_fr_are_whole_or_reduced() {
    for (number, (of_a, of_b)) in LENGTHS.into_iter().enumerate() {
        let rows = 1 + number % 2;
        for reduction in some_reductions(number) {
            let (a, b) = (random_rows(rows, of_a, 1), random_rows(rows, of_b, 2));
            let mut call = Call::default();
            call.input(&a);
            call.input(&b);
            let made = call.rows_of(step(0, 1, reduction));
            let expected = a.iter().zip(&b).map(|(a, b)| product(Fr::from(0), a, b, reduction));
            assert!(made == expected.collect::<Rows>(), "{of_a} by {of_b}, {reduction:?}");
        }
    }
}

#[test]
fn squares_over_fr_are_products() {
    for length in [1, 3, 130] {
        for reduction in [Whole, Cyclic(128), Negacyclic(128), Negacyclic(100)] {
            let a = random_rows(2, length, 3);
            let mut call = Call::default();
            call.input(&a);
            let made = call.rows_of(step(0, 0, reduction));
            let expected = a.iter().map(|a| product(Fr::from(0), a, a, reduction));
            assert!(made == expected.collect::<Rows>(), "{length}, {reduction:?}");
        }
    }
    for extreme in [Fr::from(0), -Fr::from(1)] {
        let a = vec![vec![extreme; 140]];
        let mut call = Call::default();
        call.input(&a);
        let expected = product(Fr::from(0), &a[0], &a[0], Whole);
        assert!(call.rows_of(step(0, 0, Whole)) == [expected]);
    }
}

#[test]
fn products_over_31_bit_primes_are_whole_or_reduced() {
    for (number, prime) in Prime31::ALL.iter().enumerate() {
        for (of_a, of_b) in LENGTHS {
            for reduction in some_reductions(number) {
                let seeds = [(2, 3), (1, 1), (0, 2)][(number + of_a) % 3];
                let (a, b) = (samples(*prime, of_a, seeds.0), samples(*prime, of_b, seeds.1));
                let made = Call31::new(*prime, &[a.clone(), b.clone()], step(0, 1, reduction));
                let expected = product31(*prime, &a, &b, reduction);
                assert!(made.value() == expected, "{prime}: {of_a} by {of_b}, {reduction:?}");
            }
        }
    }
}

#[test]
fn rows_over_31_bit_primes_are_multiplied_one_by_one() {
    for prime in [Prime31::P7340033, Prime31::BabyBear] {
        for (of_a, of_b) in [(5, 3), (300, 200)] {
            for reduction in [Whole, Cyclic(256), Negacyclic(256)] {
                let (a, b) = (samples(prime, 3 * of_a, 2), samples(prime, 3 * of_b, 3));
                let call = Call31::new(prime, &[a.clone(), b.clone()], step(0, 1, reduction));
                let rows = a.chunks(of_a).zip(b.chunks(of_b));
                let expected = rows.flat_map(|(a, b)| product31(prime, a, b, reduction));
                assert!(call.of_rows(3).value() == expected.collect::<Vec<_>>(), "{reduction:?}");
                let call = Call31::new(prime, std::slice::from_ref(&a), step(0, 0, reduction));
                let expected = a.chunks(of_a).flat_map(|a| product31(prime, a, a, reduction));
                assert!(call.of_rows(3).value() == expected.collect::<Vec<_>>(), "squares");
            }
        }
    }
}

/// The modulus has no transform of this length, but the reduction needs a shorter one only.
#[test]
fn reduced_products_may_be_longer_than_the_largest_transform() {
    let prime = Prime31::P7340033;
    let (mut a, mut b) = (vec![0; 1 << 20], vec![0; (1 << 20) + 3]);
    for (at, value) in [(0, 5), (1 << 19, 7), ((1 << 20) - 1, 11)] {
        (a[at], b[at + 3]) = (value, value + 1);
    }
    let call = Call31::new(prime, &[a, b], step(0, 1, Cyclic(1 << 20)));
    let mut expected = vec![0_u32; 1 << 20];
    let terms = [(0, 5), (1 << 19, 7), ((1 << 20) - 1, 11)];
    for (i, a) in terms {
        for (j, b) in terms {
            expected[(i + j + 3) % (1 << 20)] += a * (b + 1);
        }
    }
    let verify = Verification::Probabilistic;
    assert!(call.run(&*EXECUTOR, verify).expect("succeeds") == expected);
    assert!(call.run(crate::gpu::executor(), verify).expect("succeeds") == expected, "GPU");
}

#[test]
fn wrong_products_are_found_by_either_check() {
    let (executor, dial) = faulty_executor();
    dial.set(EngineMode::WrongResults);
    for reduction in [Whole, Cyclic(256), Negacyclic(256), Cyclic(200)] {
        for verify in [Verification::Full, Verification::Probabilistic] {
            let prime = Prime31::KoalaBear;
            let inputs = [samples(prime, 300, 2), samples(prime, 310, 3)];
            let call = Call31::new(prime, &inputs, step(0, 1, reduction));
            assert_eq!(
                call.run(&executor, verify),
                Err(EngineError::Corrupt),
                "{reduction:?} {verify:?}"
            );
            let mut call = Call::default();
            call.input(&random_rows(1, 300, 1));
            call.input(&random_rows(1, 310, 2));
            call.outputs = vec![call.push(step(0, 1, reduction))];
            let run = call.run(&executor, verify, &capstan::engine::JobControl::default());
            assert_eq!(run.err(), Some(EngineError::Corrupt), "{reduction:?} {verify:?}");
        }
    }
}

/// Bytes of values, and of the transforms of a group of rows.
#[test]
fn memory_of_a_product_is_known_before_the_run() {
    let memory = |reduction, is_square: bool| {
        let mut call = Call::default();
        call.input_step(2, 300);
        call.input_step(2, 310);
        let product = call.push(step(0, u32::from(!is_square), reduction));
        let [first, second] =
            [300, 310].map(|length| InputSpec::new(ScalarEncoding::Canonical, 2 * length));
        let output = OutputSpec { value: product, kind: OutputKind::Elements };
        let (program, verify) = (call.program().expect("allowed"), Verification::None);
        let run = start_run(&*EXECUTOR, program, &[first, second], &[output], verify);
        run.expect("allowed").plan().memory_bytes
    };
    let transforms = |factors: u64, lg_n| {
        let own = EXECUTOR.engine.ntt_scratch_bytes(FieldId::Bls12381Fr, lg_n);
        ((32 * 2 * factors) << lg_n) + own
    };
    assert_eq!(memory(Whole, false), 64 * (300 + 310 + 609) + transforms(2, 10));
    assert_eq!(memory(Whole, true), 64 * (300 + 599) + transforms(1, 10));
    assert_eq!(memory(Negacyclic(256), false), 64 * (300 + 310 + 256) + transforms(2, 8));
}

#[test]
fn longer_products_and_checks_take_more_time() {
    let time = |length, is_square: bool, verify| {
        let mut call = Call::default();
        call.input_step(1, length);
        call.input_step(1, length);
        let product = call.push(step(0, u32::from(!is_square), Whole));
        let given = InputSpec::new(ScalarEncoding::Canonical, length as u64);
        let output = OutputSpec { value: product, kind: OutputKind::Elements };
        let program = call.program().expect("allowed");
        let run = start_run(&*EXECUTOR, program, &[given, given], &[output], verify);
        run.expect("allowed").plan().modelled.total
    };
    let plain = time(1000, false, Verification::None);
    assert!(time(1000, true, Verification::None) < plain);
    assert!(time(10, false, Verification::None) < plain);
    for verify in [Verification::Probabilistic, Verification::Full] {
        assert!(time(1000, false, verify) > plain, "{verify:?}");
    }
}

#[test]
fn products_that_cannot_be_computed_are_refused() {
    let refusal = |field: FieldId, lengths: &[u64], step: PolyMulStep| {
        let input = |length: &u64| InputStep { field, rows: 1, length: *length }.into();
        let mut steps: Vec<_> = lengths.iter().map(input).collect();
        steps.push(step.into());
        OperationProgram::new(steps).expect_err("refused").to_string()
    };
    let small = FieldId::from(Prime31::P7340033);
    let too_long = refusal(small, &[1 << 20, 2], step(0, 1, Whole));
    let expected = "program.steps[2].poly_mul.inputs: the product has 1048577 coefficients: over \
                    7340033, at most 1048576 are possible";
    assert!(too_long.starts_with(expected), "{too_long}");
    for reduction in [Negacyclic(1 << 20), Cyclic((1 << 20) - 1)] {
        let refused = refusal(small, &[1 << 20, 1 << 20], step(0, 1, reduction));
        assert!(refused.starts_with("program.steps[2].poly_mul.inputs: the product"), "{refused}");
    }
    let fr = FieldId::Bls12381Fr;
    let refused = refusal(fr, &[1 << 32, 2], step(0, 1, Whole));
    assert!(refused.contains("4294967297 coefficients: over bls12-381-fr"), "{refused}");
    let empty = refusal(fr, &[3, 0], step(0, 1, Whole));
    let expected = "program.steps[2].poly_mul.inputs[1]: must have at least one element";
    assert!(empty.starts_with(expected), "{empty}");
    let zero = refusal(fr, &[3, 3], step(0, 1, Negacyclic(0)));
    assert!(zero.starts_with("program.steps[2].poly_mul.negacyclic: must not be zero"), "{zero}");
    let huge = refusal(fr, &[3, 3], step(0, 1, Cyclic(u64::MAX)));
    assert!(huge.starts_with("program.steps[2].poly_mul.cyclic: must be at most"), "{huge}");
    let one = PolyMulStep { inputs: vec![ValueId(0)], reduction: Whole };
    let one = refusal(fr, &[3], one);
    assert!(one.contains("poly_mul.inputs: wrong length: expected 2, got 1"), "{one}");
}
