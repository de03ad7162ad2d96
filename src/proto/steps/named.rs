//! Reads fields of steps; problems name the field.

use capstan_math::{
    curve::Fr,
    error::FieldProblem,
    field::FieldId,
    program::{Constant, StepProblem},
};

use crate::{enums::specified, parts, v1};

pub fn object_id(id: &[u8]) -> Result<[u8; 32], StepProblem> {
    id.try_into().map_err(|_| StepProblem::field("object_id", FieldProblem::UnknownId))
}

pub fn field(value: i32) -> Result<FieldId, StepProblem> {
    let field = specified(value).and_then(|field: v1::Field| FieldId::try_from(field));
    field.map_err(|problem| StepProblem::field("field", problem))
}

/// The field of a step with constants.
pub fn arithmetic_field(value: i32) -> Result<FieldId, StepProblem> {
    let field = field(value)?;
    let refused = StepProblem::field("field", FieldProblem::UnsupportedField { field });
    field.has_arithmetic().then_some(field).ok_or(refused)
}

pub fn element(name: &'static str, bytes: &[u8]) -> Result<Fr, StepProblem> {
    parts::element(bytes).map_err(|problem| StepProblem::field(name, problem))
}

pub fn constant(name: &'static str, bytes: &[u8]) -> Result<Constant, StepProblem> {
    parts::constant(bytes).map_err(|problem| StepProblem::field(name, problem))
}

/// Elements of `width` bytes, concatenated.
pub fn constants(
    name: &'static str,
    bytes: &[u8],
    width: usize,
) -> Result<Vec<Constant>, StepProblem> {
    if !bytes.len().is_multiple_of(width) {
        let (expected, got) = (bytes.len().next_multiple_of(width) as u64, bytes.len() as u64);
        return Err(StepProblem::field(name, FieldProblem::Length { expected, got }));
    }
    let decoded = bytes.chunks_exact(width).enumerate().map(|(index, bytes)| {
        parts::constant(bytes).map_err(|problem| StepProblem::element(name, index, problem))
    });
    decoded.collect()
}
