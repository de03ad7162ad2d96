//! Products of polynomials on a GPU that computes wrong results: a check finds them.

use std::sync::Arc;

use capstan::{
    curve::{Fr, layout::fr_as_bytes, scalars::ScalarEncoding},
    engine::{
        EncodedScalars, JobControl,
        cuda::{GpuPolicy, self_test::SelfTestSizes},
    },
    error::{Error, Result},
    exec::{ElementSink, Executor, GpuExecutor, RunOperands, start_run},
    field::FieldId,
    ops::{InputStep, OperationProgram, PolyMulStep, PolyReduction},
    program::{InputSpec, OutputKind, OutputSpec, ValueId},
    verify::Verification,
};

use crate::{
    known_msms::engine_with,
    rig::{control, on_emulated_driver},
    transforms::{PATIENCE, rows},
    vec_sink::VecSink,
};

const LENGTHS: [usize; 2] = [600, 500];

/// Faults that flip a bit of what a kernel wrote: copies of factors and parts of the product,
/// transforms, products of values, and reductions.
const FAULTS: [(PolyReduction, &[&str]); 3] = [
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

fn product(
    executor: &dyn Executor,
    reduction: PolyReduction,
    verify: Verification,
) -> Result<Vec<u8>> {
    let (field, encoding) = (FieldId::Bls12381Fr, ScalarEncoding::Montgomery);
    let factors = LENGTHS.map(|length| rows(10, 1).concat()[..length].to_vec());
    let input = |factor: &Vec<Fr>| InputStep { field, rows: 1, length: factor.len() as u64 }.into();
    let mut steps: Vec<_> = factors.iter().map(input).collect();
    steps.push(PolyMulStep { inputs: vec![ValueId(0), ValueId(1)], reduction }.into());
    let program = Arc::new(OperationProgram::new(steps)?);
    let sources = factors.each_ref().map(|factor| fr_as_bytes(factor));
    let inputs = sources
        .each_ref()
        .map(|source| EncodedScalars::new(encoding, source.len() / size_of::<Fr>(), source));
    let given = LENGTHS.map(|length| InputSpec { encoding, count: length as u64 });
    let wanted = [OutputSpec { value: ValueId(2), kind: OutputKind::Elements }];
    let count = reduction.degree().map_or(LENGTHS[0] + LENGTHS[1] - 1, |degree| degree as usize);
    let sink = VecSink::new(count * size_of::<Fr>());
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

#[test]
fn checked_products_refuse_wrong_results() {
    on_emulated_driver(PATIENCE, |rig| {
        let nothing = SelfTestSizes { points: &[], batches: &[] };
        let policy = GpuPolicy { self_test: Some(nothing), ..GpuPolicy::default() };
        let executor = GpuExecutor::new(Arc::new(engine_with(rig, policy)), None);
        for (reduction, faults) in FAULTS {
            let multiply = |verify| product(&executor, reduction, verify);
            let right = multiply(Verification::Probabilistic).unwrap();
            for fault in faults {
                control::fault(fault);
                let checked = multiply(Verification::Probabilistic);
                assert_eq!(checked.err(), Some(Error::Corrupt), "{reduction:?}: {fault}");
                control::fault("");
                assert!(multiply(Verification::Probabilistic).unwrap() == right, "{fault}");
            }
        }
    });
}
