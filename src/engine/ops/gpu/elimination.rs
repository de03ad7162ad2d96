//! Steps that eliminate matrices of bits on a GPU.

use super::{GpuContext, GpuValue, LaunchedStep};
use crate::{
    engines::cuda::{EliminationInput, RefusedBits},
    error::{Error, FieldProblem, Result},
    gf2::EliminationError,
    gf2_elimination::DeviceBitsShape,
    ops::host::{bit_rows, elimination_error},
    program::ValueType,
};

/// The shape of a matrix of bits within its limits.
pub fn bit_shape(value: ValueType, columns: u64) -> DeviceBitsShape {
    let small = |count| u32::try_from(count).unwrap_or(u32::MAX);
    DeviceBitsShape { rows: small(bit_rows(value, columns)), columns: small(columns) }
}

/// The names of a step's fields.
#[derive(Clone, Copy)]
pub struct EliminationFields {
    pub pivots: &'static str,
    pub rows: &'static str,
}

/// Begins an elimination. Its pieces are launched later.
///
/// Errors: `Invalid` for the first row with a bit after its last column, and for a pivot that is
/// zero or has the leading column of an earlier one; `Exhausted` if the device has no memory.
pub fn launch_elimination(
    context: GpuContext<'_>,
    input: EliminationInput,
    fields: EliminationFields,
) -> Result<LaunchedStep> {
    let unused = |field, row| Error::element(field, row, FieldProblem::UnusedBits);
    let elimination = context.gpu.begin_elimination(input)?.map_err(|refused| match refused {
        RefusedBits::UnusedOfPivot(row) => unused(fields.pivots, row),
        RefusedBits::UnusedOfRow(row) => unused(fields.rows, row),
        RefusedBits::Pivot(pivot) => {
            let error = EliminationError::Pivot(pivot);
            elimination_error(error, context.gpu.control(), fields.pivots)
        }
    })?;
    let method = elimination.method(context.gpu);
    Ok(LaunchedStep { value: GpuValue::Elimination(elimination.into()), method, is_checked: false })
}
