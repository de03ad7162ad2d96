//! Products of integers, against those of num-bigint.

use std::sync::Arc;

use capstan::{
    buffer::ByteSource,
    curve::scalars::ScalarEncoding,
    engine::{EncodedScalars, JobControl, MsmNttEngine, cpu::ArkworksEngine, cpu::CpuEngine},
    error::{EngineError, Result},
    exec::{ElementSink, Executor, RunOperands, start_run},
    field::{FieldId, IntegerLimbs},
    integers::{IntegerFactors, ProductSize, by_transforms, multiply},
    ops::{
        ConcatStep, InputStep, IntMulStep, Operation, OperationProgram, PadStep, SliceStep,
        host::{HostArgument, HostContext, HostElements},
        on_host,
    },
    program::{InputSpec, OutputKind, OutputSpec, StepKind, ValueId, ValueType, VectorShape},
    verify::Verification,
};
use num_bigint::BigUint;
use rand::{Rng, SeedableRng, rngs::StdRng};
use zeroize::Zeroizing;

use crate::{
    faulty_engine::{EngineMode, faulty_executor},
    rig::EXECUTOR,
    run_program::run_program,
    vec_sink::VecSink,
};

const LIMBS: ScalarEncoding = ScalarEncoding::Limbs32;
/// Above the length of factors that a library multiplies.
const LONG: usize = (6 << 10) + 1;

pub(crate) type Rows = Vec<Vec<u32>>;

/// Kinds of integers: zero, one limb, all ones, a single bit, two runs of ones, random ones.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Zero,
    OneLimb,
    Ones,
    OneBit,
    Runs,
    Random,
}

pub(crate) const KINDS: [Kind; 6] =
    [Kind::Zero, Kind::OneLimb, Kind::Ones, Kind::OneBit, Kind::Runs, Kind::Random];

pub(crate) fn integer(kind: Kind, length: usize, rng: &mut StdRng) -> Vec<u32> {
    let mut limbs = vec![0; length];
    match kind {
        Kind::Zero => {}
        Kind::OneLimb => limbs[0] = rng.random(),
        Kind::Ones => limbs.fill(u32::MAX),
        Kind::OneBit => limbs[rng.random_range(0..length)] = 1 << rng.random_range(0..32),
        Kind::Runs => {
            limbs.fill(u32::MAX);
            let hole = rng.random_range(0..length);
            limbs[hole] = rng.random();
            limbs[0] &= !1;
        }
        Kind::Random => limbs.iter_mut().for_each(|limb| *limb = rng.random()),
    }
    limbs
}

/// The limbs of a product, by num-bigint.
fn product(a: &[u32], b: &[u32]) -> Vec<u32> {
    let mut limbs = (BigUint::from_slice(a) * BigUint::from_slice(b)).to_u32_digits();
    assert!(limbs.len() <= a.len() + b.len());
    limbs.resize(a.len() + b.len(), 0);
    limbs
}

pub(crate) fn products(a: &Rows, b: &Rows) -> Rows {
    a.iter().zip(b).map(|(a, b)| product(a, b)).collect()
}

fn zeros(rows: usize, length: usize) -> Rows {
    vec![vec![u32::MAX; length]; rows]
}

/// Lengths of a product on both sides of each limit of sizes and of tasks.
fn lengths() -> impl Iterator<Item = usize> {
    let sizes = (2..16).flat_map(|lg_n| [1 << lg_n, 3 << (lg_n - 1)]);
    let around = sizes.flat_map(|size: usize| [size - 1, size, size + 1]);
    (2..20).chain(around.filter(|length| *length >= 20))
}

#[test]
fn transforms_of_every_size_multiply_every_kind_of_integer() {
    let mut rng = StdRng::seed_from_u64(1);
    let engines: [&dyn MsmNttEngine; 2] =
        [&CpuEngine::new(2).unwrap(), &ArkworksEngine::new(1).unwrap()];
    let control = JobControl::default();
    for (number, length) in lengths().enumerate() {
        let of_a = [length / 2, 1, length / 3 + 1, length - 1][number % 4].max(1);
        let (a, b) = (KINDS[number % 6], KINDS[number / 6 % 6]);
        for (a, b) in [(a, b), (Kind::Ones, Kind::Ones), (Kind::Random, Kind::Random)] {
            let a: Rows = (0..2).map(|_| integer(a, of_a, &mut rng)).collect();
            let b: Rows = (0..2).map(|_| integer(b, length - of_a, &mut rng)).collect();
            let expected = products(&a, &b);
            for size in [ProductSize::of(length as u64), ProductSize::whole(length as u64)] {
                let mut out = zeros(2, length);
                let factors = IntegerFactors { a: &a, b: Some(&b) };
                by_transforms(engines[number % 2], factors, size, &mut out, &control).unwrap();
                assert!(out == expected, "{of_a} of {length} limbs, {size:?}");
            }
            let square_size = ProductSize::of(2 * of_a as u64);
            let mut out = zeros(2, 2 * of_a);
            let factors = IntegerFactors { a: &a, b: None };
            by_transforms(engines[0], factors, square_size, &mut out, &control).unwrap();
            assert!(out == products(&a, &a), "square of {of_a} limbs");
        }
    }
}

#[test]
fn sizes_are_as_small_as_products_allow() {
    for limbs in 1..5000 {
        let coefficients = |size| match size {
            ProductSize::Whole { lg_n } => 1_u64 << lg_n,
            ProductSize::Thirds { lg_u } => 3 << lg_u,
        };
        let size = coefficients(ProductSize::of(limbs));
        let possible = (0..16).flat_map(|lg| [1 << lg, 3 << lg]).filter(|size| *size >= limbs);
        assert_eq!(Some(size), possible.min(), "{limbs} limbs");
    }
}

/// Lengths on both sides of the limits of the library and of its pieces.
#[test]
fn short_and_very_unequal_factors_are_multiplied_in_pieces() {
    let mut rng = StdRng::seed_from_u64(2);
    let (engine, control) = (CpuEngine::new(2).unwrap(), JobControl::default());
    let lengths = [
        (1, 1),
        (1, 2),
        (3, 3),
        (1, 300_000),
        (7, 4096),
        (4097, 5),
        (4096, 4096),
        (5000, 5000),
        (5000, 400_001),
        (LONG - 1, LONG + 4),
        (LONG, LONG),
        (LONG, 60_000),
    ];
    for (number, (of_a, of_b)) in lengths.into_iter().enumerate() {
        for (a, b) in [(Kind::Ones, Kind::Ones), (KINDS[number % 6], Kind::Random)] {
            let a = vec![integer(a, of_a, &mut rng)];
            let b = vec![integer(b, of_b, &mut rng)];
            let mut out = zeros(1, of_a + of_b);
            let factors = IntegerFactors { a: &a, b: Some(&b) };
            multiply(&engine, factors, &mut out, &control).unwrap();
            assert!(out == products(&a, &b), "{of_a} by {of_b} limbs");
            let mut out = zeros(1, 2 * of_a);
            multiply(&engine, IntegerFactors { a: &a, b: None }, &mut out, &control).unwrap();
            assert!(out == products(&a, &a), "square of {of_a} limbs");
        }
    }
}

fn bytes(rows: &Rows) -> Vec<u8> {
    rows.iter().flatten().flat_map(|limb| limb.to_le_bytes()).collect()
}

pub(crate) fn ids(values: &[u32]) -> Vec<ValueId> {
    values.iter().copied().map(ValueId).collect()
}

pub(crate) fn int_mul(a: u32, b: u32) -> Operation {
    IntMulStep { inputs: ids(&[a, b]) }.into()
}

fn input(rows: &Rows) -> Operation {
    let (count, length) = (rows.len() as u32, rows[0].len() as u64);
    InputStep { field: FieldId::Integers, rows: count, length }.into()
}

/// The last value of a program whose first steps are these inputs.
fn run(
    executor: &dyn Executor,
    inputs: &[Rows],
    steps: Vec<Operation>,
    verify: Verification,
) -> Result<Rows> {
    Ok(run_by(executor, inputs, steps, verify)?.0)
}

/// Like [`run`], with the name of the engine that has computed it.
fn run_by(
    executor: &dyn Executor,
    inputs: &[Rows],
    steps: Vec<Operation>,
    verify: Verification,
) -> Result<(Rows, &'static str)> {
    let steps: Vec<_> = inputs.iter().map(input).chain(steps).collect();
    let value = ValueId(steps.len() as u32 - 1);
    let program = Arc::new(OperationProgram::new(steps)?);
    let Some(ValueType::Vector(shape)) = program.value_type(value) else { panic!("a vector") };
    let sources: Vec<_> = inputs.iter().map(bytes).collect();
    let sources: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
    let elements = sources
        .iter()
        .map(|source| EncodedScalars::new(LIMBS, source.len() / 4, source as &dyn ByteSource));
    let elements: Vec<_> = elements.collect();
    let sink = VecSink::new(shape.bytes() as usize);
    let sinks = [Some(ElementSink { encoding: LIMBS, sink: &sink })];
    let operands = RunOperands { inputs: &elements, sinks: &sinks, ..RunOperands::default() };
    let outputs = vec![OutputSpec { value, kind: OutputKind::Elements }];
    let done = run_program(executor, program, outputs, &operands, verify, &JobControl::default())?;
    let bytes = sink.into_bytes();
    let limbs: Vec<_> = bytes.as_chunks().0.iter().map(|limb| u32::from_le_bytes(*limb)).collect();
    let rows = limbs.chunks(shape.length() as usize).map(<[u32]>::to_vec).collect();
    Ok((rows, done.report.executor.engine))
}

/// The value of a program, on the host and with GPUs.
pub(crate) fn value(inputs: &[Rows], steps: Vec<Operation>, verify: Verification) -> Result<Rows> {
    let value = run(&*EXECUTOR, inputs, steps.clone(), verify)?;
    assert!(run(crate::gpu::executor(), inputs, steps, verify)? == value, "GPU");
    Ok(value)
}

#[test]
fn rows_are_multiplied_and_squared_with_every_check() {
    let mut rng = StdRng::seed_from_u64(3);
    let short = [(3, 1, 1), (5, 40, 9), (20, 100, 100), (100, 3, 2), (2, LONG, LONG + 100)];
    // Products of three parts on a GPU: none, one or both factors are folded, in one pass or two.
    let of_thirds =
        [(2, 300, 400), (2, 500, 200), (1, 384, 384), (3, 512, 256), (1, 30_000, 9_000)];
    let sizes = short.into_iter().chain(of_thirds);
    for (rows, of_a, of_b) in sizes {
        let mut random = |length| -> Rows {
            (0..rows).map(|_| integer(Kind::Random, length, &mut rng)).collect()
        };
        let (a, b) = (random(of_a), random(of_b));
        for verify in [Verification::None, Verification::Probabilistic, Verification::Full] {
            let given = [a.clone(), b.clone()];
            let made = value(&given, vec![int_mul(0, 1)], verify).unwrap();
            assert!(made == products(&a, &b), "{rows} rows of {of_a} and {of_b}, {verify:?}");
            let made = value(&given[..1], vec![int_mul(0, 0)], verify).unwrap();
            assert!(made == products(&a, &a), "{rows} squares of {of_a}, {verify:?}");
        }
    }
}

/// Values of both factors and of their product count.
#[test]
fn short_programs_over_integers_run_on_the_cpu() {
    use capstan::engine::cuda::GpuPolicy;
    let policy = GpuPolicy { integer_limbs_min: 40, ..GpuPolicy::default() };
    let executor = crate::gpu::open(5, Arc::new(|| true), policy);
    let mut rng = StdRng::seed_from_u64(6);
    for (rows, of_a, of_b, expected) in
        [(1, 10, 9, "cpu"), (1, 10, 10, "cuda"), (2, 5, 4, "cpu"), (3, 5, 4, "cuda")]
    {
        let mut random = |length| -> Rows {
            (0..rows).map(|_| integer(Kind::Random, length, &mut rng)).collect()
        };
        let given = [random(of_a), random(of_b)];
        for verify in [Verification::None, Verification::Probabilistic, Verification::Full] {
            let (made, engine) = run_by(&executor, &given, vec![int_mul(0, 1)], verify).unwrap();
            assert!(made == products(&given[0], &given[1]), "{rows} rows of {of_a} and {of_b}");
            assert_eq!(engine, expected, "{rows} rows of {of_a} and {of_b}");
        }
    }
}

#[test]
fn limbs_are_joined_taken_and_appended() {
    let mut rng = StdRng::seed_from_u64(4);
    let a = vec![integer(Kind::Random, 6, &mut rng)];
    let b = vec![integer(Kind::Random, 4, &mut rng)];
    // a + 2^192 b, without its lowest limb, times a with two zeros.
    let steps = vec![
        ConcatStep { inputs: ids(&[0, 1]) }.into(),
        SliceStep { input: ValueId(2), offset: 1, length: 9 }.into(),
        PadStep { input: ValueId(0), length: 8 }.into(),
        int_mul(3, 4),
    ];
    let made = value(&[a.clone(), b.clone()], steps, Verification::Full).unwrap();
    let joined = BigUint::from_slice(&[&a[0][..], &b[0]].concat());
    let mut expected = ((joined >> 32_u32) * BigUint::from_slice(&a[0])).to_u32_digits();
    expected.resize(17, 0);
    assert_eq!(made, [expected]);
}

#[test]
fn wrong_products_are_found_by_either_check() {
    let (executor, dial) = faulty_executor();
    dial.set(EngineMode::WrongResults);
    let mut rng = StdRng::seed_from_u64(5);
    let a = vec![integer(Kind::Random, LONG, &mut rng)];
    for (steps, inputs) in [(int_mul(0, 1), 2), (int_mul(0, 0), 1)] {
        for verify in [Verification::Full, Verification::Probabilistic] {
            let given = vec![a.clone(); inputs];
            let refused = run(&executor, &given, vec![steps.clone()], verify);
            assert_eq!(refused.err(), Some(EngineError::Corrupt), "{verify:?}");
        }
    }
}

#[test]
fn shapes_that_are_not_factors_are_refused() {
    let types = |field, rows: u32, length| {
        let shape = VectorShape::row(field, length).unwrap().with_rows(rows).unwrap();
        ValueType::Vector(shape)
    };
    let integers = |rows, length| types(FieldId::Integers, rows, length);
    let refusal = |inputs: &[ValueType]| {
        let step = IntMulStep { inputs: vec![ValueId(0); inputs.len()] };
        let problem = step.infer(inputs).expect_err("refused");
        problem.of_step(2, "int_mul").to_string()
    };
    let refuses = |inputs: &[ValueType], message: &str| {
        let refusal = refusal(inputs);
        assert!(refusal.contains(message), "{refusal}, not {message}");
    };
    let one = integers(1, 5);
    refuses(&[one], "int_mul.inputs: wrong length: expected 2, got 1");
    refuses(&[one, one, one], "int_mul.inputs: wrong length: expected 2, got 3");
    refuses(&[one, integers(1, 0)], "int_mul.inputs[1]: must have at least one element");
    refuses(&[integers(1, 0), one], "int_mul.inputs[0]: must have at least one element");
    refuses(&[one, integers(2, 5)], "int_mul.inputs[1]: wrong number of rows: expected 1, got 2");
    refuses(&[one, types(FieldId::Gf2, 1, 5)], "int_mul.inputs[1]: ");
    refuses(&[types(FieldId::Bls12381Fr, 1, 5); 2], "is a vector over bls12-381-fr");
    let max = 1 << 26;
    refuses(&[integers(1, max), one], "the product has 67108869 limbs: at most 67108864");
    let longest = IntMulStep { inputs: ids(&[0, 1]) }.infer(&[integers(1, max - 5), one]);
    assert_eq!(longest, Ok(integers(1, max)));
}

#[test]
fn products_stop_at_a_cancellation() {
    let control = JobControl::default();
    control.cancel();
    for length in [3, LONG] {
        let shape = VectorShape::row(FieldId::Integers, 2 * length as u64).unwrap();
        let context = HostContext {
            engine: &*EXECUTOR.engine,
            control: &control,
            value_type: ValueType::Vector(shape),
            input: None,
            bases: None,
            matrix: None,
        };
        let rows = || IntegerLimbs.wrap(Zeroizing::new(vec![vec![1; length]]));
        let arguments = vec![HostArgument::Owned(rows()), HostArgument::Owned(rows())];
        let stopped = on_host(&int_mul(0, 1)).run(arguments, &context);
        assert_eq!(stopped.err(), Some(EngineError::Cancelled));
    }
}

#[test]
fn plans_count_the_working_memory_and_the_time() {
    let plan = |length: u64, is_square: bool, verify| {
        let input = || InputStep { field: FieldId::Integers, rows: 1, length }.into();
        let steps = vec![input(), input(), int_mul(0, u32::from(!is_square))];
        let program = Arc::new(OperationProgram::new(steps).unwrap());
        let outputs = [OutputSpec { value: ValueId(2), kind: OutputKind::Elements }];
        let given = [InputSpec::new(LIMBS, length); 2];
        let run = start_run(&*EXECUTOR, program, &given, &outputs, verify).unwrap();
        let plan = run.plan();
        (plan.memory_bytes, plan.modelled.total)
    };
    let length = 3 << 20;
    let (memory, time) = plan(length, false, Verification::None);
    let (of_square, time_of_square) = plan(length, true, Verification::None);
    // Residues modulo three primes, and the other factor modulo one.
    assert!(memory >= 4 * (4 * length + 3 * 2 * length), "{memory}");
    assert!(of_square < memory && time_of_square < time);
    assert!((0.1..100.0).contains(&time.as_secs_f64()), "{time:?}");
    assert!(plan(length, false, Verification::Probabilistic).1 > time);
    assert!(plan(100, false, Verification::None).1 < time / 1000);
}
