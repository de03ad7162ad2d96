//! Makes one row: first, first * base, first * base^2, ...

#[cfg(feature = "server")]
mod cpu;
#[cfg(feature = "cuda")]
mod gpu;

use serde::{Deserialize, Serialize};

use crate::{
    curve::{Fr, serialized},
    field::FieldId,
    program::{StepInputs, StepKind, StepProblem, ValueType, VectorShape},
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PowersStep {
    #[serde(with = "serialized::fr")]
    pub base: Fr,
    #[serde(with = "serialized::fr")]
    pub first: Fr,
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
        let shape = VectorShape::row(FieldId::Bls12381Fr, self.length);
        shape.map(ValueType::Vector).map_err(|problem| StepProblem::field("length", problem))
    }
}
