//! Makes one row of elements that are part of the program.

#[cfg(feature = "server")]
mod cpu;
#[cfg(feature = "server")]
mod gpu;

use serde::{Deserialize, Serialize};

use crate::{
    error::FieldProblem,
    field::FieldId,
    program::{Constant, StepInputs, StepKind, StepProblem, ValueType, VectorShape},
};

const ELEMENTS_MAX: usize = 1024;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConstantStep {
    pub field: FieldId,
    pub elements: Vec<Constant>,
}

impl StepKind for ConstantStep {
    fn name(&self) -> &'static str {
        "constant"
    }

    fn inputs(&self) -> StepInputs<'_> {
        StepInputs::None
    }

    fn infer(&self, _: &[ValueType]) -> Result<ValueType, StepProblem> {
        let length = self.elements.len();
        let shape = match length > ELEMENTS_MAX {
            true => Err(FieldProblem::too_long(ELEMENTS_MAX, length)),
            false => VectorShape::row(self.field, length as u64),
        };
        Constant::check_all(&self.elements, self.field, "elements")?;
        shape.map(ValueType::Vector).map_err(|problem| StepProblem::field("elements", problem))
    }
}
