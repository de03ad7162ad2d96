//! Steps that read stored objects: bases and sparse matrices.

use serde::{Deserialize, Serialize};

use super::shapes;
use crate::{
    curve::{Group, points::Bases},
    error::FieldProblem,
    program::{
        ExternalOperand, PointsShape, StepInputs, StepKind, StepProblem, ValueId, ValueType,
    },
    sparse::SparseShape,
};

/// Computes the sum of `input[i] * bases[offset + i]` for each row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MsmStep {
    /// The scalars.
    pub input: ValueId,
    /// The curve group of the bases.
    pub group: Group,
    /// Content hash of the stored bases.
    pub object_id: [u8; 32],
    /// Index of the first base.
    pub offset: u64,
}

impl MsmStep {
    /// The bases that rows of `length` elements use, of those stored with the step's id.
    pub fn bases(&self, stored: &Bases, length: u64) -> Result<Bases, StepProblem> {
        if stored.group() != self.group {
            return Err(StepProblem::field("group", FieldProblem::OtherGroup));
        }
        let count = stored.len() as u64;
        let Some(max) = count.checked_sub(length) else {
            let problem = FieldProblem::TooLong { max: count, got: length };
            return Err(StepProblem::field("input", problem));
        };
        let bases = match self.offset <= max {
            true => stored.slice(self.offset as usize, length as usize),
            false => None,
        };
        bases.ok_or(StepProblem::field("offset", FieldProblem::TooLarge { max }))
    }
}

impl StepKind for MsmStep {
    fn name(&self) -> &'static str {
        "msm"
    }

    fn inputs(&self) -> StepInputs<'_> {
        StepInputs::One(&self.input)
    }

    fn infer(&self, inputs: &[ValueType]) -> Result<ValueType, StepProblem> {
        let shape = shapes::fr_vector(inputs)?;
        Ok(ValueType::Points(PointsShape { group: self.group, count: shape.rows() }))
    }

    fn reads_any_encoding(&self) -> bool {
        true
    }

    fn operand(&self) -> Option<ExternalOperand> {
        Some(ExternalOperand::Bases)
    }
}

/// Multiplies a stored sparse matrix by each row.
///
/// Its shape is part of the step, so that types and times are known without the matrix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SparseProductStep {
    /// The vector.
    pub input: ValueId,
    /// Content hash of the stored matrix.
    pub object_id: [u8; 32],
    /// The number of the matrix's rows.
    pub rows: u64,
    /// The number of the matrix's terms.
    pub terms: u64,
}

impl SparseProductStep {
    /// Checks that the stored matrix is the one that the step describes, for an input whose rows
    /// have `length` elements.
    pub fn check_matrix(&self, shape: SparseShape, length: u64) -> Result<(), StepProblem> {
        let fields = [
            ("input", u64::from(shape.columns), length),
            ("rows", u64::from(shape.rows), self.rows),
            ("terms", u64::from(shape.terms), self.terms),
        ];
        let wrong = fields.into_iter().find(|(_, expected, got)| expected != got);
        wrong.map_or(Ok(()), |(field, expected, got)| {
            Err(StepProblem::field(field, FieldProblem::Length { expected, got }))
        })
    }
}

impl StepKind for SparseProductStep {
    fn name(&self) -> &'static str {
        "sparse_product"
    }

    fn inputs(&self) -> StepInputs<'_> {
        StepInputs::One(&self.input)
    }

    fn infer(&self, inputs: &[ValueType]) -> Result<ValueType, StepProblem> {
        // More cannot be stored, and their modelled time must not overflow.
        let max = u64::from(u32::MAX);
        if self.terms > max {
            return Err(StepProblem::field("terms", FieldProblem::TooLarge { max }));
        }
        let product = shapes::fr_vector(inputs)?.with_length(self.rows);
        product.map(ValueType::Vector).map_err(|problem| StepProblem::field("rows", problem))
    }

    fn is_row_by_row(&self) -> bool {
        true
    }

    fn operand(&self) -> Option<ExternalOperand> {
        Some(ExternalOperand::Matrix)
    }
}
