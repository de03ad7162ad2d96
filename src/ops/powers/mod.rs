//! Makes one row: first, first * base, first * base^2, ...

#[cfg(feature = "server")]
mod cpu;
#[cfg(feature = "server")]
mod gpu;

use serde::{Deserialize, Serialize};

use crate::{
    field::FieldId,
    program::{Constant, StepInputs, StepKind, StepProblem, ValueType, VectorShape},
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PowersStep {
    pub field: FieldId,
    pub base: Constant,
    pub first: Constant,
    /// Number of elements.
    pub length: u64,
}

impl StepKind for PowersStep {
    fn name(&self) -> &'static str {
        "powers"
    }

    fn inputs(&self) -> StepInputs<'_> {
        StepInputs::None
    }

    fn infer(&self, _: &[ValueType]) -> Result<ValueType, StepProblem> {
        for (name, constant) in [("base", self.base), ("first", self.first)] {
            constant.check(self.field).map_err(|problem| StepProblem::field(name, problem))?;
        }
        let shape = VectorShape::row(self.field, self.length);
        shape.map(ValueType::Vector).map_err(|problem| StepProblem::field("length", problem))
    }
}
