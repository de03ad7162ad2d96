//! A step that is computed row by row makes each row from the same row of its inputs, so that
//! several GPUs can share its rows.

use std::{collections::BTreeSet, sync::Arc};

use capstan::{
    buffer::ByteSource,
    curve::{Fr, scalars::ScalarEncoding},
    engine::{EncodedScalars, JobControl},
    exec::{ElementSink, Executor, RunOperands},
    field::{FieldId, Prime31},
    ops::{InputStep, Operation, OperationKind, OperationProgram},
    program::{OutputKind, OutputSpec, StepKind, ValueId, ValueType},
    sparse::{SparseBuilder, SparseMatrix},
    verify::Verification,
};

use crate::{
    documented_fields::{step, takes},
    rig::EXECUTOR,
    run_program::run_program,
    vec_sink::VecSink,
};

const ROWS: usize = 3;
/// Elements of a row.
const LENGTH: usize = 2;

/// The matrix that the step of [`step`] names: one row with one term.
fn matrix() -> SparseMatrix {
    let mut builder = SparseBuilder::new(1, LENGTH);
    builder.push_row([(Fr::from(7), 1)]).unwrap();
    builder.build().unwrap()
}

/// What the step makes of these rows.
fn compute(executor: &dyn Executor, field: FieldId, step: &Operation, rows: &[u8]) -> Vec<u8> {
    let encoding = ScalarEncoding::in_memory(field);
    let count = rows.len() / encoding.width();
    let input = InputStep { field, rows: (count / LENGTH) as u32, length: LENGTH as u64 };
    let program = Arc::new(OperationProgram::new(vec![input.into(), step.clone()]).unwrap());
    let value = ValueId(1);
    let Some(ValueType::Vector(shape)) = program.value_type(value) else { panic!("a vector") };
    let sink = VecSink::new(shape.bytes() as usize);
    let inputs = [EncodedScalars::new(encoding, count, &rows as &dyn ByteSource)];
    let sinks = [Some(ElementSink { encoding, sink: &sink })];
    let operands =
        RunOperands { inputs: &inputs, sinks: &sinks, matrices: &[matrix()], ..Default::default() };
    let outputs = vec![OutputSpec { value, kind: OutputKind::Elements }];
    let (verify, control) = (Verification::None, JobControl::default());
    run_program(executor, program, outputs, &operands, verify, &control).unwrap();
    sink.into_bytes()
}

#[test]
fn each_row_depends_on_the_same_row_only() {
    let mut seen = BTreeSet::new();
    let fields =
        [FieldId::Bls12381Fr, FieldId::from(Prime31::BabyBear), FieldId::Gf2, FieldId::Integers];
    for field in fields {
        let width = ScalarEncoding::in_memory(field).width();
        // Small numbers, which are canonical in every encoding.
        let element = |at: usize| {
            let mut bytes = vec![0; width];
            bytes[0] = 3 + 5 * at as u8;
            bytes
        };
        let rows: Vec<u8> = (0..ROWS * LENGTH).flat_map(element).collect();
        for kind in OperationKind::ALL {
            let step = step(*kind, field);
            if !step.is_row_by_row() || !takes(field, step.clone()) {
                continue;
            }
            seen.insert(kind.name());
            let all = compute(&*EXECUTOR, field, &step, &rows);
            let each = rows.chunks(LENGTH * width);
            let each: Vec<u8> =
                each.flat_map(|row| compute(&*EXECUTOR, field, &step, row)).collect();
            assert!(all == each, "{} over {}", kind.name(), field.name());
        }
    }
    let steps = OperationKind::ALL.iter().map(|kind| step(*kind, FieldId::Bls12381Fr));
    let claimed = steps.filter(|step| step.is_row_by_row()).map(|step| step.name());
    assert_eq!(seen, claimed.collect());
}
