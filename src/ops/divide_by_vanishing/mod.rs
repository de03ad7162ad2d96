//! Divides evaluations on a coset by the vanishing polynomial X^n - 1 of the domain.

#[cfg(feature = "server")]
mod cpu;
#[cfg(feature = "server")]
mod gpu;

use ark_ff::{Field, One, Zero};
use serde::{Deserialize, Serialize};

use super::shapes;
use crate::{
    curve::{Fr, TWO_ADICITY, serialized},
    error::FieldProblem,
    program::{StepInputs, StepKind, StepProblem, ValueId, ValueType},
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DivideByVanishingStep {
    pub input: ValueId,
    /// log2 of the size n of the domain.
    pub lg_n: u32,
    #[serde(with = "serialized::fr")]
    pub coset_generator: Fr,
}

impl DivideByVanishingStep {
    /// The polynomial's value, which is the same everywhere on the coset.
    fn divisor(&self) -> Fr {
        self.coset_generator.pow([1u64 << self.lg_n]) - Fr::one()
    }
}

impl StepKind for DivideByVanishingStep {
    fn name(&self) -> &'static str {
        "divide_by_vanishing"
    }

    fn inputs(&self) -> StepInputs<'_> {
        StepInputs::One(&self.input)
    }

    fn infer(&self, inputs: &[ValueType]) -> Result<ValueType, StepProblem> {
        let shape = shapes::fr_vector(inputs)?;
        if self.lg_n > TWO_ADICITY {
            let problem = FieldProblem::TooLarge { max: TWO_ADICITY.into() };
            return Err(StepProblem::field("lg_n", problem));
        }
        let refused = |problem| Err(StepProblem::field("coset_generator", problem));
        if self.coset_generator.is_zero() {
            return refused(FieldProblem::Zero);
        }
        if self.divisor().is_zero() {
            return refused(FieldProblem::OutOfRange);
        }
        let (expected, got) = (1 << self.lg_n, shape.length());
        match expected == got {
            true => Ok(ValueType::Vector(shape)),
            false => Err(StepProblem::field("input", FieldProblem::Length { expected, got })),
        }
    }

    fn is_row_by_row(&self) -> bool {
        true
    }

    fn can_overwrite(&self, _: usize) -> bool {
        true
    }
}
