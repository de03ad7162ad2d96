//! Programs that are refused, each with its message, which names the step.

use ark_ff::{FftField, Field, One, Zero};
use capstan::{
    curve::{Fr, Group, NttPlan},
    error::{FieldPath, FieldProblem, InputError, Reason, StepField},
    field::FieldId,
    ops::{
        ConcatStep, ConstantStep, DivideByLinearStep, DivideByVanishingStep, EvaluateStep,
        InputStep, LinearCombinationStep, MsmStep, NttStep, Operation, OperationProgram, PadStep,
        PointwiseOperation, PointwiseStep, SliceStep,
    },
    program::{Constant, ROWS_MAX, VALUE_ELEMENTS_MAX, ValueId},
    wire::input_status,
};
use tonic::Code;
use tonic_types::StatusExt;

use crate::rig::{constants, natural, powers};

const FIELD: FieldId = FieldId::Bls12381Fr;

fn input(rows: u32, length: u64) -> Operation {
    InputStep { field: FIELD, rows, length }.into()
}

fn points(of: u32) -> Operation {
    let (group, object_id) = (Group::G1, [0; 32]);
    MsmStep { input: ValueId(of), group, object_id, offset: 0 }.into()
}

fn ids(values: &[u32]) -> Vec<ValueId> {
    values.iter().copied().map(ValueId).collect()
}

fn ntt(of: u32, plan: NttPlan<Constant>) -> Operation {
    NttStep { input: ValueId(of), plan }.into()
}

fn pointwise(operation: PointwiseOperation, inputs: &[u32]) -> Operation {
    PointwiseStep { operation, inputs: ids(inputs) }.into()
}

fn sum(inputs: &[u32], factors: usize) -> Operation {
    LinearCombinationStep { inputs: ids(inputs), factors: vec![Fr::one().into(); factors] }.into()
}

fn concat(inputs: &[u32]) -> Operation {
    ConcatStep { inputs: ids(inputs) }.into()
}

fn slice(of: u32, offset: u64, length: u64) -> Operation {
    SliceStep { input: ValueId(of), offset, length }.into()
}

fn pad(of: u32, length: u64) -> Operation {
    PadStep { input: ValueId(of), length }.into()
}

fn vanishing(of: u32, lg_n: u32, coset_generator: Fr) -> Operation {
    DivideByVanishingStep { input: ValueId(of), lg_n, coset_generator }.into()
}

fn refusal(steps: Vec<Operation>) -> InputError {
    OperationProgram::new(steps).expect_err("refused")
}

#[track_caller]
fn assert_refused(steps: Vec<Operation>, message: &str) {
    assert_eq!(refusal(steps).to_string(), message);
}

#[test]
fn steps_read_earlier_values_only() {
    let later = "must be the index of an earlier step";
    let add = PointwiseOperation::Add;
    for (steps, field) in [
        (vec![pad(0, 1)], "steps[0].pad.input"),
        (vec![input(1, 4), pad(7, 4)], "steps[1].pad.input"),
        (vec![input(1, 4), pad(u32::MAX, 4)], "steps[1].pad.input"),
        (vec![input(1, 4), ntt(2, natural(2, false, None)), input(1, 4)], "steps[1].ntt.input"),
        (vec![input(1, 4), pointwise(add, &[0, 1])], "steps[1].pointwise.inputs[1]"),
        (vec![input(1, 4), sum(&[1], 1)], "steps[1].linear_combination.inputs[0]"),
        (vec![input(1, 4), concat(&[0, 0, 3])], "steps[1].concat.inputs[2]"),
        (vec![input(1, 4), points(1)], "steps[1].msm.input"),
    ] {
        assert_refused(steps, &format!("program.{field}: {later}"));
    }
}

#[test]
fn steps_that_need_vectors_refuse_points() {
    let is_points = "is a list of points, but must be a vector";
    let point = Fr::from(2);
    for (step, field) in [
        (ntt(1, natural(2, false, None)), "ntt.input"),
        (pointwise(PointwiseOperation::Subtract, &[0, 1]), "pointwise.inputs[1]"),
        (sum(&[1, 0], 2), "linear_combination.inputs[0]"),
        (slice(1, 0, 0), "slice.input"),
        (concat(&[0, 1]), "concat.inputs[1]"),
        (pad(1, 4), "pad.input"),
        (EvaluateStep { input: ValueId(1), point: point.into() }.into(), "evaluate.input"),
        (DivideByLinearStep { input: ValueId(1), point }.into(), "divide_by_linear.input"),
        (vanishing(1, 2, point), "divide_by_vanishing.input"),
        (points(1), "msm.input"),
    ] {
        let steps = vec![input(1, 4), points(0), step];
        let error = refusal(steps);
        assert_eq!(error.to_string(), format!("program.steps[2].{field}: {is_points}"));
        assert_eq!(error.reason(), Reason::ValueType);
    }
}

#[test]
fn shapes_agree() {
    use PointwiseOperation::{Add, Invert, Multiply, MultiplyAdd};
    let vectors = || vec![input(1, 4), input(2, 4), input(1, 5), input(2, 2)];
    let wrong = |step, message: &str| {
        assert_refused([vectors(), vec![step]].concat(), &format!("program.steps[4].{message}"));
    };
    wrong(pointwise(Add, &[0, 1]), "pointwise.inputs[1]: wrong number of rows: expected 1, got 2");
    wrong(pointwise(Multiply, &[0, 2]), "pointwise.inputs[1]: wrong length: expected 4, got 5");
    wrong(
        pointwise(MultiplyAdd, &[2, 2, 0]),
        "pointwise.inputs[2]: wrong length: expected 5, got 4",
    );
    wrong(pointwise(Invert, &[]), "pointwise.inputs: wrong length: expected 1, got 0");
    wrong(pointwise(Add, &[0]), "pointwise.inputs: wrong length: expected 2, got 1");
    wrong(pointwise(MultiplyAdd, &[0; 4]), "pointwise.inputs: wrong length: expected 3, got 4");
    wrong(sum(&[], 0), "linear_combination.inputs: is required");
    wrong(sum(&[0; 257], 257), "linear_combination.inputs: too long: at most 256, got 257");
    wrong(sum(&[0, 0], 1), "linear_combination.factors: wrong length: expected 2, got 1");
    wrong(sum(&[1, 3], 2), "linear_combination.inputs[1]: wrong length: expected 4, got 2");
    wrong(concat(&[]), "concat.inputs: is required");
    wrong(concat(&[0; 257]), "concat.inputs: too long: at most 256, got 257");
    wrong(concat(&[0, 2, 3]), "concat.inputs[2]: wrong number of rows: expected 1, got 2");
    wrong(slice(0, 5, 0), "slice.offset: must be at most 4");
    wrong(slice(0, 1, 4), "slice.length: must be at most 3");
    wrong(slice(0, 1, u64::MAX), "slice.length: must be at most 3");
    wrong(pad(2, 4), "pad.length: must be at least 5");
    wrong(
        vanishing(0, 3, Fr::GENERATOR),
        "divide_by_vanishing.input: wrong length: expected 8, got 4",
    );
}

#[test]
fn parameters_are_in_range() {
    let wrong = |step, message: &str| {
        assert_refused(vec![input(1, 4), step], &format!("program.steps[1].{message}"));
    };
    wrong(ntt(0, natural(33, false, None)), "ntt.lg_n: must be at most 32");
    wrong(ntt(0, natural(1, false, None)), "ntt.input: too long: at most 2, got 4");
    wrong(ntt(0, natural(2, true, Some(Fr::zero()))), "ntt.coset_generator: must not be zero");
    wrong(vanishing(0, 33, Fr::GENERATOR), "divide_by_vanishing.lg_n: must be at most 32");
    wrong(vanishing(0, 2, Fr::zero()), "divide_by_vanishing.coset_generator: must not be zero");
    let root = Fr::get_root_of_unity(4).expect("a root");
    let in_the_domain = "divide_by_vanishing.coset_generator: \
                         value not allowed here: see the field in the API reference";
    wrong(vanishing(0, 2, Fr::ONE), in_the_domain);
    wrong(vanishing(0, 2, root), in_the_domain);
    let elements = vec![Fr::one(); 1025];
    wrong(
        ConstantStep { field: FieldId::Bls12381Fr, elements: constants(&elements) }.into(),
        "constant.elements: too long: at most 1024, got 1025",
    );
}

#[test]
fn sizes_are_bounded() {
    let max = VALUE_ELEMENTS_MAX;
    assert!(OperationProgram::new(vec![input(1, max), input(ROWS_MAX, max >> 16)]).is_ok());
    let wrong = |steps, message: String| assert_refused(steps, &message);
    let first = |message: &str| format!("program.steps[0].{message}");
    wrong(vec![input(0, 1)], first("input.rows: must not be zero"));
    wrong(vec![input(65_537, 0)], first("input.rows: must be at most 65536"));
    wrong(vec![input(1, max + 1)], first(&format!("input.length: must be at most {max}")));
    wrong(vec![input(3, u64::MAX)], first(&format!("input.length: must be at most {}", max / 3)));
    let powers = powers(Fr::one(), Fr::one(), u64::MAX);
    wrong(vec![powers.into()], first(&format!("powers.length: must be at most {max}")));
    let second = |message: &str| format!("program.steps[1].{message}");
    wrong(
        vec![input(2, 1), pad(0, u64::MAX)],
        second(&format!("pad.length: must be at most {}", max / 2)),
    );
    wrong(
        vec![input(1, max / 2), concat(&[0, 0, 0])],
        second(&format!("concat.inputs: must be at most {max}")),
    );
    wrong(
        vec![input(ROWS_MAX, 1), ntt(0, natural(25, false, None))],
        second("ntt.lg_n: must be at most 24"),
    );
    // The largest program: its bytes are counted without overflow.
    let steps = (0..1024).map(|i| if i < 256 { input(1, max) } else { concat(&[0]) });
    let program = OperationProgram::new(steps.collect()).expect("allowed");
    let outputs: Vec<_> = (0..256).map(ValueId).collect();
    let memory = capstan::program::ResultMemory::New;
    let liveness = capstan::program::Liveness::new(&program, &outputs, memory).expect("allowed");
    assert_eq!(liveness.peak_bytes(), 32 * max);
}

#[test]
fn programs_are_bounded() {
    assert_refused(vec![], "program.steps: is required");
    assert_refused(vec![input(1, 1); 1025], "program.steps: too long: at most 1024, got 1025");
    assert!(OperationProgram::new(vec![input(1, 1); 256]).is_ok());
    assert_refused(
        vec![input(1, 1); 257],
        "program.steps[256].input: one too many: at most 256 are allowed",
    );
}

/// The status names the step's field, and the index in it.
#[test]
fn statuses_name_the_step() {
    let error = refusal(vec![input(1, 4), concat(&[0, 0, 3])]);
    assert_eq!(
        error,
        InputError::Invalid {
            path: FieldPath::Step(StepField { step: 1, operation: "concat", name: Some("inputs") }),
            index: Some(2),
            problem: FieldProblem::NotEarlier,
        }
    );
    let status = input_status(error);
    assert_eq!(status.code(), Code::InvalidArgument);
    let details = status.get_error_details();
    let violation = &details.bad_request().expect("a bad request").field_violations[0];
    assert_eq!(violation.field, "program.steps[1].concat.inputs[2]");
    assert_eq!(violation.description, "must be the index of an earlier step");
    let info = details.error_info().expect("a reason");
    assert_eq!(info.reason, "OUT_OF_RANGE");
    assert_eq!(info.metadata["field"], "program.steps[1].concat.inputs");
    assert_eq!(info.metadata["index"], "2");
}
