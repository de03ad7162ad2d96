//! Adds multiples of integers, row by row.

#[cfg(feature = "server")]
mod cpu;
#[cfg(feature = "server")]
mod gpu;

use serde::{Deserialize, Serialize};

use super::shapes;
use crate::{
    error::FieldProblem,
    field::FieldId,
    integers::{MAGNITUDES_MAX, SUM_TERMS_MAX},
    program::{StepInputs, StepKind, StepProblem, ValueId, ValueType},
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IntSumStep {
    pub inputs: Vec<ValueId>,
    /// One factor per input.
    pub factors: Vec<i64>,
    /// Limbs of each row of the result: the sum is computed modulo 2^(32 `length`).
    pub length: u64,
}

impl StepKind for IntSumStep {
    fn name(&self) -> &'static str {
        "int_sum"
    }

    fn inputs(&self) -> StepInputs<'_> {
        StepInputs::List(&self.inputs)
    }

    fn infer(&self, inputs: &[ValueType]) -> Result<ValueType, StepProblem> {
        if inputs.len() > SUM_TERMS_MAX {
            let problem = FieldProblem::too_long(SUM_TERMS_MAX, inputs.len());
            return Err(StepProblem::field("inputs", problem));
        }
        let shape = shapes::vectors(inputs, false)?[0];
        let field = shape.field();
        if field != FieldId::Integers {
            let problem = FieldProblem::UnsupportedField { field };
            return Err(StepProblem::element("inputs", 0, problem));
        }
        if self.factors.len() != inputs.len() {
            let (expected, got) = (inputs.len() as u64, self.factors.len() as u64);
            return Err(StepProblem::field("factors", FieldProblem::Length { expected, got }));
        }
        let magnitudes = self.factors.iter().map(|factor| u128::from(factor.unsigned_abs()));
        if magnitudes.sum::<u128>() > MAGNITUDES_MAX.into() {
            let problem = FieldProblem::FactorsTooLarge { max: MAGNITUDES_MAX };
            return Err(StepProblem::field("factors", problem));
        }
        let sum = shape.with_length(self.length);
        sum.map(ValueType::Vector).map_err(|problem| StepProblem::field("length", problem))
    }

    fn is_row_by_row(&self) -> bool {
        true
    }
}
