//! Steps whose vectors over GF(2) are matrices of bits.

use serde::{Deserialize, Serialize};

use crate::{
    error::FieldProblem,
    field::FieldId,
    gf2::{COLUMNS_MAX, MATRIX_BYTES_MAX, ROWS_MAX},
    program::{StepInputs, StepKind, StepProblem, ValueId, ValueType},
};

/// Reduces the rows of a matrix of bits by pivot rows, and promotes rows to pivots.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gf2ReduceStep {
    /// The pivots, and the rows to reduce.
    pub inputs: [ValueId; 2],
    /// The number of columns of both matrices.
    pub columns: u64,
}

impl Gf2ReduceStep {
    /// The fields of the inputs.
    pub const INPUT_NAMES: [&str; 2] = ["pivots", "rows"];
}

impl StepKind for Gf2ReduceStep {
    fn name(&self) -> &'static str {
        "gf2_reduce"
    }

    fn inputs(&self) -> StepInputs<'_> {
        StepInputs::Pair { ids: &self.inputs, names: Self::INPUT_NAMES }
    }

    fn infer(&self, inputs: &[ValueType]) -> Result<ValueType, StepProblem> {
        let &[pivots, rows] = inputs else {
            return Err(StepProblem::field(Self::INPUT_NAMES[0], FieldProblem::Missing));
        };
        for (value, name) in [pivots, rows].into_iter().zip(Self::INPUT_NAMES) {
            check_bit_matrix(value, self.columns, name)?;
        }
        Ok(rows)
    }

    fn can_overwrite(&self, position: usize) -> bool {
        Self::INPUT_NAMES[position] == "rows"
    }
}

/// Computes the reduced row echelon form of a matrix of bits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gf2EchelonStep {
    /// The matrix.
    pub input: ValueId,
    /// The number of columns.
    pub columns: u64,
}

impl StepKind for Gf2EchelonStep {
    fn name(&self) -> &'static str {
        "gf2_echelon"
    }

    fn inputs(&self) -> StepInputs<'_> {
        StepInputs::One(&self.input)
    }

    fn infer(&self, inputs: &[ValueType]) -> Result<ValueType, StepProblem> {
        let &[matrix] = inputs else {
            return Err(StepProblem::field("input", FieldProblem::Missing));
        };
        check_bit_matrix(matrix, self.columns, "input")?;
        Ok(matrix)
    }

    fn can_overwrite(&self, _: usize) -> bool {
        true
    }
}

/// Checks that a value is a matrix of bits: a vector of one row, which holds the matrix's rows.
///
/// Errors: `IsPoints`, `UnsupportedField`, `Rows`, `Length`, `TooLong` for the step's field `name`;
/// `Zero`, `TooLarge` for the number of columns.
fn check_bit_matrix(value: ValueType, columns: u64, name: &'static str) -> Result<(), StepProblem> {
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
