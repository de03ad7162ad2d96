//! The shapes that steps ask of their inputs.

use crate::{
    error::FieldProblem,
    field::FieldId,
    program::{StepProblem, ValueType, VectorShape},
};

/// The shape of the only input, which must be a vector.
pub(super) fn vector(inputs: &[ValueType]) -> Result<VectorShape, StepProblem> {
    match inputs {
        [ValueType::Vector(shape)] => Ok(*shape),
        [ValueType::Points(_)] => Err(StepProblem::field("input", FieldProblem::IsPoints)),
        _ => Err(StepProblem::field("input", FieldProblem::Missing)),
    }
}

/// The shape of the only input, which must be a vector over a field in which steps compute.
pub(super) fn field_vector(inputs: &[ValueType]) -> Result<VectorShape, StepProblem> {
    let shape = vector(inputs)?;
    check_arithmetic(shape).map_err(|problem| StepProblem::field("input", problem))?;
    Ok(shape)
}

/// Like [`vectors`], over a field in which steps compute.
pub(super) fn field_vectors(
    inputs: &[ValueType],
    same_length: bool,
) -> Result<Vec<VectorShape>, StepProblem> {
    let shapes = vectors(inputs, same_length)?;
    check_arithmetic(shapes[0]).map_err(|problem| StepProblem::element("inputs", 0, problem))?;
    Ok(shapes)
}

fn check_arithmetic(shape: VectorShape) -> Result<(), FieldProblem> {
    let field = shape.field();
    field.has_arithmetic().then_some(()).ok_or(FieldProblem::UnsupportedField { field })
}

/// The shape of the only input, which must be a vector over Fr.
pub(super) fn fr_vector(inputs: &[ValueType]) -> Result<VectorShape, StepProblem> {
    let shape = vector(inputs)?;
    match shape.field() {
        FieldId::Bls12381Fr => Ok(shape),
        field => Err(StepProblem::field("input", FieldProblem::UnsupportedField { field })),
    }
}

/// The shapes of a list of vectors that agree with the first one: in the field, in the number of
/// rows and, with `same_length`, in the length. The list is not empty.
pub(super) fn vectors(
    inputs: &[ValueType],
    same_length: bool,
) -> Result<Vec<VectorShape>, StepProblem> {
    let mut shapes = Vec::with_capacity(inputs.len());
    for (position, input) in inputs.iter().enumerate() {
        let refused = |problem| Err(StepProblem::element("inputs", position, problem));
        let ValueType::Vector(shape) = *input else { return refused(FieldProblem::IsPoints) };
        shapes.push(shape);
        let first = shapes[0];
        if shape.field() != first.field() {
            return refused(FieldProblem::OtherField);
        }
        if shape.rows() != first.rows() {
            let (expected, got) = (first.rows().into(), shape.rows().into());
            return refused(FieldProblem::Rows { expected, got });
        }
        if same_length && shape.length() != first.length() {
            let (expected, got) = (first.length(), shape.length());
            return refused(FieldProblem::Length { expected, got });
        }
    }
    match shapes.is_empty() {
        true => Err(StepProblem::field("inputs", FieldProblem::Missing)),
        false => Ok(shapes),
    }
}
