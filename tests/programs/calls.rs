//! The inputs that a call may provide to a program, and the values that it may request.

use capstan::{
    curve::{G1Affine, Group, scalars::ScalarEncoding},
    engine::JobControl,
    error::{EngineError, Result},
    exec::{AwaitedElements, Executor, RunInProgress, start_run},
    field::FieldId,
    ops::{ConstantStep, EvaluateStep, MsmStep, PadStep},
    program::{InputSpec, OutputKind, OutputSpec, ValueId},
    verify::Verification,
};

use crate::rig::{Call, CallInput, EXECUTOR, bases, constants, random, random_rows};

const FULL: ScalarEncoding = ScalarEncoding::Canonical;
const NARROW: ScalarEncoding = ScalarEncoding::Unsigned(4);

/// Values: an input of 2 rows of 3 for an MSM (0), one of 4 elements for a vector (1), the sum (2),
/// the vector (3).
fn program() -> Call {
    let mut call = Call::default();
    let (scalars, coefficients) = (call.input_step(2, 3), call.input_step(1, 4));
    let (group, object_id) = (Group::G1, [0; 32]);
    call.push(MsmStep { input: scalars, group, object_id, offset: 0 });
    call.push(PadStep { input: coefficients, length: 6 });
    call
}

fn start(
    inputs: &[(ScalarEncoding, u64)],
    outputs: &[(u32, OutputKind)],
) -> Result<Box<dyn RunInProgress>> {
    let inputs: Vec<_> =
        inputs.iter().map(|&(encoding, count)| InputSpec::new(encoding, count)).collect();
    let output = |&(value, kind)| OutputSpec { value: ValueId(value), kind };
    let outputs = outputs.iter().map(output).collect::<Vec<_>>();
    start_run(&*EXECUTOR, program().program()?, &inputs, &outputs, Verification::None)
}

#[track_caller]
fn assert_refused(inputs: &[(ScalarEncoding, u64)], outputs: &[(u32, OutputKind)], message: &str) {
    let error = start(inputs, outputs).err().expect("refused");
    assert_eq!(error.to_string(), message);
}

#[test]
fn inputs_have_the_shape_and_encoding_of_their_step() {
    let both = [(2, OutputKind::Points), (3, OutputKind::Elements)];
    assert!(start(&[(FULL, 6), (FULL, 4)], &both).is_ok());
    assert!(start(&[(NARROW, 6), (ScalarEncoding::Montgomery, 4)], &both).is_ok());
    let narrow = "must have a 32-byte encoding: not only MSMs read this input";
    assert_refused(&[(NARROW, 6), (NARROW, 4)], &both, &format!("inputs[1]: {narrow}"));
    // An output is read, too.
    assert_refused(
        &[(NARROW, 6), (FULL, 4)],
        &[(0, OutputKind::Elements), (2, OutputKind::Points)],
        &format!("inputs[0]: {narrow}"),
    );
    // No output needs the vector, so nothing reads its input.
    assert!(start(&[(NARROW, 6), (NARROW, 4)], &both[..1]).is_ok());
    let wrong = |expected, got| format!("wrong length: expected {expected}, got {got}");
    assert_refused(&[(FULL, 5), (FULL, 4)], &both, &format!("inputs[0]: {}", wrong(6, 5)));
    assert_refused(&[(FULL, 6), (FULL, 5)], &both, &format!("inputs[1]: {}", wrong(4, 5)));
    assert_refused(&[(FULL, 6)], &both, &format!("inputs: {}", wrong(2, 1)));
    assert_refused(&[(FULL, 6), (FULL, 4), (FULL, 0)], &both, &format!("inputs: {}", wrong(2, 3)));
}

#[test]
fn outputs_name_values_of_their_kind() {
    let inputs = [(FULL, 6), (FULL, 4)];
    assert_refused(&inputs, &[], "outputs: is required");
    let many = vec![(3, OutputKind::Elements); 257];
    assert_refused(&inputs, &many, "outputs: too long: at most 256, got 257");
    assert!(start(&inputs, &many[..256]).is_ok());
    let one = |value, kind| [(3, OutputKind::Elements), (value, kind)];
    assert_refused(
        &inputs,
        &one(4, OutputKind::Elements),
        "outputs[1]: must be the index of a step of the program",
    );
    assert_refused(
        &inputs,
        &one(2, OutputKind::Elements),
        "outputs[1]: is a list of points, but must be a vector",
    );
    assert_refused(
        &inputs,
        &one(3, OutputKind::Points),
        "outputs[1]: is a vector, but must be a list of points",
    );
}

/// The step of the input is named, not the step that decodes it.
#[test]
fn elements_that_are_not_canonical_are_named() {
    let mut call = program();
    let (mut scalars, mut coefficients) =
        (CallInput::canonical(&random_rows(2, 3, 1)), CallInput::canonical(&random_rows(1, 4, 2)));
    call.bases =
        vec![bases(vec![ark_ec::AffineRepr::generator(); 3] as Vec<capstan::curve::G1Affine>)];
    call.outputs = vec![ValueId(3), ValueId(2)];
    call.inputs = vec![scalars.clone(), coefficients.clone()];
    let run = |call: &Call| call.run(&*EXECUTOR, Verification::None, &JobControl::default());
    assert!(run(&call).is_ok());
    scalars.bytes[32 * 4..][..32].fill(0xff);
    coefficients.bytes[32 * 2..].fill(0xff);
    let refused = |call: &Call| run(call).expect_err("refused").to_string();
    call.inputs[0] = scalars;
    assert_eq!(
        refused(&call),
        "program.steps[0].input.elements[4]: not canonical: must be less than the modulus"
    );
    call.inputs[1] = coefficients;
    assert_eq!(
        refused(&call),
        "program.steps[1].input.elements[2]: not canonical: must be less than the modulus"
    );
}

#[test]
fn reports_name_every_step_and_skip_those_that_no_output_needs() {
    let mut call = Call::default();
    let unused = call.input(&random_rows(1, 8, 3));
    call.push(EvaluateStep { input: unused, point: random(4).into() });
    let elements = random_rows(1, 2, 5).remove(0);
    let input =
        call.push(ConstantStep { field: FieldId::Bls12381Fr, elements: constants(&elements) });
    call.push(EvaluateStep { input, point: random(6).into() });
    // The elements of the unused input are never read.
    call.inputs[0].bytes.fill(0xff);
    call.outputs = vec![ValueId(3)];
    let answer =
        call.run(&*EXECUTOR, Verification::Full, &JobControl::default()).expect("succeeds");
    let steps = &answer.report.steps;
    let operations: Vec<_> = steps.iter().map(|step| step.operation).collect();
    assert_eq!(operations, ["input", "evaluate", "constant", "evaluate"]);
    let verified: Vec<_> = steps.iter().map(|step| step.verified).collect();
    let (none, full) = (Verification::None, Verification::Full);
    assert_eq!(verified, [none, none, full, full]);
    assert!(steps[..2].iter().all(|step| step.duration.is_zero()));
    assert_eq!(answer.report.executor.engine, "cpu");
}

#[test]
fn a_run_says_which_input_it_reads_next() {
    let mut run = start(&[(NARROW, 6), (FULL, 4)], &[(3, OutputKind::Elements)]).expect("allowed");
    let awaited = |input, count| Some(AwaitedElements { input, elements: 0..count });
    assert_eq!(run.awaited(), awaited(1, 4));
    let empty = capstan::exec::RunOperands::default();
    let missing = run.step(&empty, &JobControl::default());
    assert!(matches!(missing, Err(EngineError::Internal(_))), "the call gives no elements");
    assert!(run.step(&empty, &JobControl::default()).is_err(), "an error ends the run");
    let run = start(&[(NARROW, 6), (FULL, 4)], &[(2, OutputKind::Points)]).expect("allowed");
    assert_eq!(run.awaited(), awaited(0, 6), "the MSM reads the input");
}

/// A GPU that launches steps ahead refuses the element that the host would find first.
#[test]
fn the_first_step_that_reads_a_refused_element_refuses_it() {
    let rows = random_rows(1, 4, 5);
    let bad_at = |index: usize| {
        let mut input = CallInput::canonical(&rows);
        input.bytes[32 * index..][..32].fill(0xff);
        input
    };
    let refused_by = |executor: &dyn Executor, call: &Call| {
        let refused = call.run(executor, Verification::None, &JobControl::default());
        refused.err().map(|error| error.to_string())
    };
    for is_sum_first in [false, true] {
        let points: Vec<G1Affine> = vec![ark_ec::AffineRepr::generator(); 4];
        let mut call = Call { bases: vec![bases(points)], ..Call::default() };
        let sum = |call: &mut Call| {
            let (input, group, object_id) = (call.input_step(1, 4), Group::G1, [0; 32]);
            call.push(MsmStep { input, group, object_id, offset: 0 })
        };
        let early = is_sum_first.then(|| sum(&mut call));
        let input = call.input_step(1, 4);
        let value = call.push(EvaluateStep { input, point: random(6).into() });
        let sum = early.unwrap_or_else(|| sum(&mut call));
        call.outputs = vec![value, sum];
        call.inputs = vec![bad_at(1), bad_at(2)];
        let refused =
            "program.steps[0].input.elements[1]: not canonical: must be less than the modulus";
        assert_eq!(refused_by(&*EXECUTOR, &call).as_deref(), Some(refused));
        assert_eq!(refused_by(crate::gpu::executor(), &call).as_deref(), Some(refused));
    }
}
