//! Programs of one step that reads an input. MSM and NTT calls run such programs.

use super::{InputStep, MsmStep, NttStep, OperationProgram};
use crate::{
    curve::{Group, NttPlan},
    error::Result,
    field::FieldId,
    program::{Constant, Program, ValueId},
};

/// The value of the step.
pub const SINGLE_STEP: ValueId = ValueId(1);

/// An MSM of `rows` scalar vectors of `length` scalars each, over bases that the run is given.
///
/// Errors: `Invalid` for a number of rows or scalars that is too large.
pub fn single_msm(group: Group, rows: usize, length: usize) -> Result<OperationProgram> {
    let object_id = [0; 32];
    let offset = 0;
    let step = MsmStep { input: ValueId(0), group, object_id, offset };
    let input = input(FieldId::Bls12381Fr, rows, length as u64);
    Ok(Program::new(vec![input.into(), step.into()])?)
}

/// An NTT of `rows` rows of `length` elements of a field each.
///
/// Errors: `Invalid` for a number of rows or elements that is too large, and for a transform that
/// the field does not have.
pub fn single_ntt(
    field: FieldId,
    plan: NttPlan<Constant>,
    rows: usize,
    length: u64,
) -> Result<OperationProgram> {
    let step = NttStep { input: ValueId(0), plan };
    Ok(Program::new(vec![input(field, rows, length).into(), step.into()])?)
}

fn input(field: FieldId, rows: usize, length: u64) -> InputStep {
    let rows = u32::try_from(rows).unwrap_or(u32::MAX);
    InputStep { field, rows, length }
}
