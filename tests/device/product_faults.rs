//! Products of polynomials, and NTTs over a 31-bit prime, on a GPU that computes wrong results: a
//! check finds them.

use std::sync::Arc;

use capstan::{
    curve::{NttPlan, layout::fr_as_bytes, scalars::ScalarEncoding},
    engine::{
        EncodedScalars, JobControl,
        cuda::{GpuPolicy, self_test::SelfTestSizes},
    },
    error::{EngineError, Result},
    exec::{ElementSink, Executor, GpuExecutor, RunOperands, start_run},
    field::{FieldId, Prime31},
    ops::{
        InputStep, IntMulStep, NttStep, Operation, OperationProgram, PolyMulStep, PolyReduction,
    },
    program::{Constant, InputSpec, OutputKind, OutputSpec, ValueId},
    verify::Verification,
};

use crate::{
    known_msms::engine_with,
    rig::{DeviceRig, control, on_emulated_driver},
    transforms::{PATIENCE, rows},
    vec_sink::VecSink,
};

const LENGTHS: [usize; 2] = [600, 500];

/// Faults that flip a bit of what a kernel wrote: copies of factors and parts of the product,
/// transforms, products of values, and reductions.
const FAULTS_OF_FR: [(PolyReduction, &[&str]); 3] = [
    (
        PolyReduction::None,
        &[
            "fr_copy_rows:1:flip1",
            "ntt_dif_columns_e1_b2:1:flip1",
            "ntt_dif_columns_e1_b2:2:flip1",
            "fr_multiply:1:flip2",
        ],
    ),
    (PolyReduction::Cyclic(600), &["fr_multiply:1:flip2", "fr_add:1:flip2"]),
    (PolyReduction::Negacyclic(600), &["fr_subtract:1:flip2"]),
];

/// The same over a 31-bit prime, whose products have one pass.
const FAULTS_OF_WORDS: [(PolyReduction, &[&str]); 3] = [
    (PolyReduction::None, &["ntt31_rows_dif_11:1:flip3", "ntt31_rows_product_11:1:flip3"]),
    (
        PolyReduction::Cyclic(600),
        &[
            "ntt31_rows_product_11:1:flip3",
            "words31_copy_rows:1:flip1",
            "words31_pointwise:1:flip3",
        ],
    ),
    (PolyReduction::Negacyclic(600), &["words31_pointwise:1:flip3"]),
];

/// Products of integers: factors are folded, multiplied modulo primes, and added up to limbs.
const FAULTS_OF_INTEGERS: &[&str] = &[
    "words31_decode:1:flip0",
    "words31_pointwise:1:flip3",
    "ntt31_rows_product_9:1:flip3",
    "ntt31_rows_product_10:1:flip3",
    "integers_limbs_3:1:flip4",
];

/// Passes of a transform over a 31-bit prime from natural order to bit-reversed, and back.
const FAULTS_OF_TRANSFORMS: [(bool, &[&str]); 2] = [
    (false, &["ntt31_columns_dif_7:1:flip3", "ntt31_rows_dif_8:1:flip3"]),
    (true, &["ntt31_columns_dit_7:1:flip1", "ntt31_rows_dit_8:1:flip1"]),
];
const LG_TRANSFORM: u32 = 15;

pub fn product(
    executor: &dyn Executor,
    field: FieldId,
    reduction: PolyReduction,
    verify: Verification,
) -> Result<Vec<u8>> {
    let step = PolyMulStep { inputs: vec![ValueId(0), ValueId(1)], reduction }.into();
    let count = reduction.degree().map_or(LENGTHS[0] + LENGTHS[1] - 1, |degree| degree as usize);
    value_of(executor, field, &LENGTHS, vec![step], count, verify)
}

/// The product of two integers.
pub fn integer_product(executor: &dyn Executor, verify: Verification) -> Result<Vec<u8>> {
    let step = IntMulStep { inputs: vec![ValueId(0), ValueId(1)] }.into();
    let count = LENGTHS.iter().sum();
    value_of(executor, FieldId::Integers, &LENGTHS, vec![step], count, verify)
}

fn transform(executor: &dyn Executor, inverse: bool, verify: Verification) -> Result<Vec<u8>> {
    let plan = NttPlan {
        lg_n: LG_TRANSFORM,
        inverse,
        coset: Some(Constant::Word(5)),
        input_reversed: inverse,
        output_reversed: !inverse,
    };
    let (step, n) = (NttStep { input: ValueId(0), plan }.into(), 1 << LG_TRANSFORM);
    value_of(executor, Prime31::BabyBear.into(), &[n], vec![step], n, verify)
}

/// Canonical elements in Montgomery form.
fn elements(field: FieldId, count: usize) -> Vec<u8> {
    match field {
        FieldId::Bls12381Fr => fr_as_bytes(&rows(10, 1).concat()[..count]).to_vec(),
        // Below 2^22, and so below each prime.
        _ => (0..count as u32).flat_map(|i| (i * 51 % (1 << 22)).to_le_bytes()).collect(),
    }
}

/// The value, of `count` elements, of the last of steps that follow inputs of these lengths.
pub fn value_of(
    executor: &dyn Executor,
    field: FieldId,
    lengths: &[usize],
    own: Vec<Operation>,
    count: usize,
    verify: Verification,
) -> Result<Vec<u8>> {
    let encoding = ScalarEncoding::in_memory(field);
    let input = |length: &usize| InputStep { field, rows: 1, length: *length as u64 }.into();
    let mut steps: Vec<_> = lengths.iter().map(input).collect();
    steps.extend(own);
    let value = ValueId(steps.len() as u32 - 1);
    let program = Arc::new(OperationProgram::new(steps)?);
    let inputs: Vec<_> = lengths.iter().map(|length| elements(field, *length)).collect();
    let sources: Vec<_> = inputs.iter().map(Vec::as_slice).collect();
    let pairs = sources.iter().zip(lengths);
    let inputs: Vec<_> =
        pairs.map(|(source, length)| EncodedScalars::new(encoding, *length, source)).collect();
    let specs = lengths.iter().map(|length| InputSpec::new(encoding, *length as u64));
    let given: Vec<_> = specs.collect();
    let wanted = [OutputSpec { value, kind: OutputKind::Elements }];
    let sink = VecSink::new(count * encoding.width());
    let sinks = [Some(ElementSink { encoding, sink: &sink })];
    let operands = RunOperands { inputs: &inputs, sinks: &sinks, ..RunOperands::default() };
    let mut run = start_run(executor, program, &given, &wanted, verify)?;
    run.begin(&[])?;
    loop {
        if let Some(report) = run.step(&operands, &JobControl::default())? {
            assert_eq!(report.executor.engine, "cuda");
            return Ok(sink.into_bytes());
        }
    }
}

pub fn executor(rig: &DeviceRig) -> GpuExecutor {
    let nothing = SelfTestSizes::NONE;
    let policy = GpuPolicy { self_test: Some(nothing), ..GpuPolicy::default() };
    GpuExecutor::new(Arc::new(engine_with(rig, policy)), None)
}

/// Runs with each fault, which the check finds, and without.
fn check_finds(run: impl Fn(Verification) -> Result<Vec<u8>>, faults: &[&str], what: &str) {
    let right = run(Verification::Probabilistic).unwrap();
    for fault in faults {
        control::fault(fault);
        let checked = run(Verification::Probabilistic);
        assert_eq!(checked.err(), Some(EngineError::Corrupt), "{what}: {fault}");
        control::fault("");
        assert!(run(Verification::Probabilistic).unwrap() == right, "{what}: {fault}");
    }
}

#[test]
fn checked_products_refuse_wrong_results() {
    on_emulated_driver(PATIENCE, |rig| {
        let executor = executor(rig);
        let of_fields =
            [(FieldId::Bls12381Fr, FAULTS_OF_FR), (Prime31::BabyBear.into(), FAULTS_OF_WORDS)];
        for (field, all) in of_fields {
            for (reduction, faults) in all {
                let run = |verify| product(&executor, field, reduction, verify);
                check_finds(run, faults, &format!("{field} {reduction:?}"));
            }
        }
    });
}

#[test]
fn checked_products_of_integers_refuse_wrong_results() {
    on_emulated_driver(PATIENCE, |rig| {
        let executor = executor(rig);
        check_finds(|verify| integer_product(&executor, verify), FAULTS_OF_INTEGERS, "integers");
    });
}

#[test]
fn checked_transforms_over_31_bit_primes_refuse_wrong_results() {
    on_emulated_driver(PATIENCE, |rig| {
        let executor = executor(rig);
        for (inverse, faults) in FAULTS_OF_TRANSFORMS {
            let run = |verify| transform(&executor, inverse, verify);
            check_finds(run, faults, &format!("inverse: {inverse}"));
        }
    });
}
