//! Vectors over GF(2) as matrices of bits: which shapes they may have.

use crate::{
    error::FieldProblem,
    field::FieldId,
    gf2::{COLUMNS_MAX, MATRIX_BYTES_MAX, ROWS_MAX},
    program::{StepProblem, ValueType},
};

/// The shape of a matrix of bits that is a vector of one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BitMatrixShape {
    pub rows: u64,
    /// Words of a row.
    pub words: u64,
}

impl BitMatrixShape {
    /// Errors: `IsPoints`, `UnsupportedField`, `Rows`, `Length`, `TooLong` for the vector; `Zero`,
    /// `TooLarge` for the number of columns.
    pub fn of(value: ValueType, columns: u64, name: &'static str) -> Result<Self, StepProblem> {
        let refused = |problem| StepProblem::field("columns", problem);
        if columns == 0 {
            return Err(refused(FieldProblem::Zero));
        }
        if columns > COLUMNS_MAX {
            return Err(refused(FieldProblem::TooLarge { max: COLUMNS_MAX }));
        }
        Self::of_words(value, columns.div_ceil(64))
            .map_err(|problem| StepProblem::field(name, problem))
    }

    fn of_words(value: ValueType, words: u64) -> Result<Self, FieldProblem> {
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
        Ok(Self { rows: length / words, words })
    }
}
