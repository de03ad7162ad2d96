//! Programs whose values hold secrets.

use std::sync::Arc;

use capstan::{
    buffer::{PayloadView, UploadBuffer},
    curve::{
        Fr, G1Affine, Group,
        points::{CurvePoint, PointSlice},
        scalars::ScalarEncoding,
    },
    engine::{EncodedScalars, JobControl, NttPlan},
    error::EngineError,
    exec::{ElementSink, RunOperands},
    field::FieldId,
    ops::{
        ConcatStep, DivideByLinearStep, EvaluateStep, InputStep, LinearCombinationStep, MsmStep,
        NttStep, Operation, OperationProgram, PadStep, PointwiseOperation, PointwiseStep,
        SliceStep,
    },
    program::{OutputKind, OutputSpec, ValueId},
    verify::Verification,
};

use crate::{JobRunner, N, payload, run_program::run_program};

/// Steps whose values have the marker as an element, most of them in place. The first output has
/// two vectors, the second one element, the third is a point.
fn program() -> OperationProgram {
    let (rows, length, value) = (1, N as u64, |index| ValueId(index));
    let invert =
        |input| PointwiseStep { operation: PointwiseOperation::Invert, inputs: vec![value(input)] };
    let (inverse, coset, input_reversed, output_reversed) = Default::default();
    let plan = NttPlan { lg_n: 10, inverse, coset, input_reversed, output_reversed };
    let steps: Vec<Operation> = vec![
        InputStep { field: FieldId::Bls12381Fr, rows, length }.into(),
        DivideByLinearStep { input: value(0), point: Fr::from(0) }.into(),
        PadStep { input: value(1), length: 1024 }.into(),
        NttStep { input: value(2), plan }.into(),
        NttStep { input: value(3), plan: NttPlan { inverse: true, ..plan } }.into(),
        invert(4).into(),
        invert(5).into(),
        SliceStep { input: value(6), offset: 0, length }.into(),
        LinearCombinationStep { inputs: vec![value(7)], factors: vec![Fr::from(1).into()] }.into(),
        ConcatStep { inputs: vec![value(8), value(0)] }.into(),
        EvaluateStep { input: value(0), point: Fr::from(0).into() }.into(),
        MsmStep { input: value(8), group: Group::G1, object_id: [0; 32], offset: 0 }.into(),
    ];
    OperationProgram::new(steps).expect("valid steps")
}

/// Runs the program with each check, and with an element that is not canonical.
pub fn run(bench: &JobRunner) {
    let program = Arc::new(program());
    let bases = [G1Affine::into_bases(PointSlice::new(Arc::new(bench.bases.clone())))];
    let (encoding, control) = (ScalarEncoding::Canonical, JobControl::default());
    let run = |bytes: &[u8], verify| {
        let results = [64 * N as u64, 32]
            .map(|bytes| Arc::new(UploadBuffer::new(&bench.pool, bytes, vec![])));
        let views = results.each_ref().map(|result| PayloadView::starting_at(result, 0));
        let mut sinks: Vec<_> =
            views.iter().map(|sink| Some(ElementSink { encoding, sink })).collect();
        let elements = |value| OutputSpec { value: ValueId(value), kind: OutputKind::Elements };
        let mut outputs = vec![elements(9), elements(10)];
        // The oracle's MSM leaves copies of its scalars: see SECURITY.md.
        if verify != Verification::Full {
            sinks.push(None);
            outputs.push(OutputSpec { value: ValueId(11), kind: OutputKind::Points });
        }
        let operands = RunOperands {
            inputs: &[EncodedScalars::new(encoding, N, &bytes)],
            bases: &bases,
            sinks: &sinks,
            ..RunOperands::default()
        };
        run_program(&*bench.host.executor, program.clone(), outputs, &operands, verify, &control)
            .map(drop)
    };
    let bytes = payload(encoding);
    let mut bad = bytes.clone();
    bad[32 * N - 32..].fill(0xff);
    for verify in [Verification::None, Verification::Full, Verification::Probabilistic] {
        bench.assert_wiped(&format!("program, {verify:?}"), |_| {
            run(&bytes, verify).expect("succeeds");
            assert!(matches!(run(&bad, verify), Err(EngineError::Input(_))));
        });
    }
}
