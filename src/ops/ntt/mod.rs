//! Transforms each row of a vector. Shorter rows are padded with zeros.

#[cfg(feature = "server")]
mod cpu;
#[cfg(feature = "cuda")]
mod gpu;
#[cfg(feature = "server")]
mod pieces;

use ark_ff::Zero;

use serde::{Deserialize, Serialize};

use super::shapes;
use crate::{
    curve::{NttPlan, TWO_ADICITY},
    error::FieldProblem,
    program::{StepInputs, StepKind, StepProblem, ValueId, ValueType},
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NttStep {
    pub input: ValueId,
    pub plan: NttPlan,
}

impl StepKind for NttStep {
    fn name(&self) -> &'static str {
        "ntt"
    }

    fn inputs(&self) -> StepInputs<'_> {
        StepInputs::One(&self.input)
    }

    fn infer(&self, inputs: &[ValueType]) -> Result<ValueType, StepProblem> {
        let shape = shapes::vector(inputs)?;
        let lg_n_max = TWO_ADICITY.min(shape.length_max().ilog2());
        if self.plan.lg_n > lg_n_max {
            let problem = FieldProblem::TooLarge { max: lg_n_max.into() };
            return Err(StepProblem::field("lg_n", problem));
        }
        if self.plan.coset.is_some_and(|generator| generator.is_zero()) {
            return Err(StepProblem::field("coset_generator", FieldProblem::Zero));
        }
        let n = 1 << self.plan.lg_n;
        if shape.length() > n {
            let problem = FieldProblem::TooLong { max: n, got: shape.length() };
            return Err(StepProblem::field("input", problem));
        }
        let shape = shape.with_length(n);
        shape.map(ValueType::Vector).map_err(|problem| StepProblem::field("lg_n", problem))
    }

    fn can_overwrite(&self, _: usize) -> bool {
        true
    }
}
