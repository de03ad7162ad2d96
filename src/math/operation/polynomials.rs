//! Transforms each row of a vector. Shorter rows are padded with zeros.

#[cfg(feature = "server")]
mod cpu;
#[cfg(feature = "cuda")]
mod gpu;
#[cfg(feature = "server")]
mod pieces;

use serde::{Deserialize, Serialize};

use super::shapes;
use crate::{
    curve::NttPlan,
    error::FieldProblem,
    program::{Constant, StepInputs, StepKind, StepProblem, ValueId, ValueType},
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NttStep {
    pub input: ValueId,
    pub plan: NttPlan<Constant>,
}

impl StepKind for NttStep {
    fn name(&self) -> &'static str {
        "ntt"
    }

    fn inputs(&self) -> StepInputs<'_> {
        StepInputs::One(&self.input)
    }

    fn infer(&self, inputs: &[ValueType]) -> Result<ValueType, StepProblem> {
        let shape = shapes::field_vector(inputs)?;
        let lg_n_max = shape.field().two_adicity().min(shape.length_max().ilog2());
        if self.plan.lg_n > lg_n_max {
            let problem = FieldProblem::TooLarge { max: lg_n_max.into() };
            return Err(StepProblem::field("lg_n", problem));
        }
        if let Some(generator) = self.plan.coset {
            let refused = |problem| StepProblem::field("coset_generator", problem);
            generator.check(shape.field()).map_err(refused)?;
            if generator.is_zero() {
                return Err(refused(FieldProblem::Zero));
            }
        }
        let n = 1 << self.plan.lg_n;
        if shape.length() > n {
            let problem = FieldProblem::TooLong { max: n, got: shape.length() };
            return Err(StepProblem::field("input", problem));
        }
        let shape = shape.with_length(n);
        shape.map(ValueType::Vector).map_err(|problem| StepProblem::field("lg_n", problem))
    }

    fn is_row_by_row(&self) -> bool {
        true
    }

    fn can_overwrite(&self, _: usize) -> bool {
        true
    }
}
