//! Computes the sum of `input[i] * bases[offset + i]` for each row.

#[cfg(feature = "server")]
mod cpu;
#[cfg(feature = "cuda")]
mod gpu;
#[cfg(feature = "server")]
mod pieces;
#[cfg(feature = "server")]
mod sums;

use serde::{Deserialize, Serialize};

use super::shapes;
use crate::{
    curve::{Group, points::Bases},
    error::FieldProblem,
    program::{
        ExternalOperand, PointsShape, StepInputs, StepKind, StepProblem, ValueId, ValueType,
    },
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MsmStep {
    pub input: ValueId,
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
