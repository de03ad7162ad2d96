//! Vectors over GF(2) as matrices of bits: which shapes they may have.

use crate::{
    error::FieldProblem,
    field::FieldId,
    gf2::{COLUMNS_MAX, MATRIX_BYTES_MAX, ROWS_MAX},
    program::{StepProblem, ValueType},
};

/// Checks that a value is a matrix of bits: a vector of one row, which holds the matrix's rows.
///
/// Errors: `IsPoints`, `UnsupportedField`, `Rows`, `Length`, `TooLong` for the step's field `name`;
/// `Zero`, `TooLarge` for the number of columns.
pub fn check_bit_matrix(
    value: ValueType,
    columns: u64,
    name: &'static str,
) -> Result<(), StepProblem> {
    let refused = |problem| StepProblem::field("columns", problem);
    if columns == 0 {
        return Err(refused(FieldProblem::Zero));
    }
    if columns > COLUMNS_MAX {
        return Err(refused(FieldProblem::TooLarge { max: COLUMNS_MAX }));
    }
    check_vector(value, columns.div_ceil(64)).map_err(|problem| StepProblem::field(name, problem))
}

/// `words` is the number of words of a row of the matrix.
fn check_vector(value: ValueType, words: u64) -> Result<(), FieldProblem> {
    let ValueType::Vector(shape) = value else { return Err(FieldProblem::IsPoints) };
    let (field, length) = (shape.field(), shape.length());
    if field != FieldId::Gf2 {
        return Err(FieldProblem::UnsupportedField { field });
    }
    if shape.rows() != 1 {
        return Err(FieldProblem::Rows { expected: 1, got: shape.rows().into() });
    }
    if !length.is_multiple_of(words) {
        let (expected, got) = (length.next_multiple_of(words), length);
        return Err(FieldProblem::Length { expected, got });
    }
    let max = (ROWS_MAX * words).min(MATRIX_BYTES_MAX / 8 / words * words);
    if length > max {
        return Err(FieldProblem::TooLong { max, got: length });
    }
    Ok(())
}
