//! Steps whose rows are polynomials: coefficients or values.

use ark_ff::{Field, One, Zero};
use serde::{Deserialize, Serialize};

use super::shapes;
use crate::{
    curve::{Fr, NttPlan, TWO_ADICITY, serialized},
    error::FieldProblem,
    program::{Constant, StepInputs, StepKind, StepProblem, ValueId, ValueType},
};

/// Transforms each row of a vector. Shorter rows are padded with zeros.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NttStep {
    /// The vector.
    pub input: ValueId,
    /// The transform.
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

/// Evaluates each row, the coefficients of a polynomial, at a point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvaluateStep {
    /// The coefficients.
    pub input: ValueId,
    /// Where the polynomials are evaluated.
    pub point: Constant,
}

impl StepKind for EvaluateStep {
    fn name(&self) -> &'static str {
        "evaluate"
    }

    fn inputs(&self) -> StepInputs<'_> {
        StepInputs::One(&self.input)
    }

    fn infer(&self, inputs: &[ValueType]) -> Result<ValueType, StepProblem> {
        let shape = shapes::field_vector(inputs)?;
        let point = self.point.check(shape.field());
        point.map_err(|problem| StepProblem::field("point", problem))?;
        let shape = shape.with_length(1);
        shape.map(ValueType::Vector).map_err(|problem| StepProblem::field("input", problem))
    }

    fn is_row_by_row(&self) -> bool {
        true
    }
}

/// Divides each row, the coefficients of a polynomial f: (f - f(point)) / (X - point).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DivideByLinearStep {
    /// The coefficients.
    pub input: ValueId,
    /// Where the divisor is zero.
    #[serde(with = "serialized::fr")]
    pub point: Fr,
}

impl StepKind for DivideByLinearStep {
    fn name(&self) -> &'static str {
        "divide_by_linear"
    }

    fn inputs(&self) -> StepInputs<'_> {
        StepInputs::One(&self.input)
    }

    fn infer(&self, inputs: &[ValueType]) -> Result<ValueType, StepProblem> {
        shapes::fr_vector(inputs).map(ValueType::Vector)
    }

    fn is_row_by_row(&self) -> bool {
        true
    }

    fn can_overwrite(&self, _: usize) -> bool {
        true
    }
}

/// Divides evaluations on a coset by the vanishing polynomial X^n - 1 of the domain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DivideByVanishingStep {
    /// The evaluations.
    pub input: ValueId,
    /// log2 of the size n of the domain.
    pub lg_n: u32,
    /// Generates the coset on which the polynomials are evaluated.
    #[serde(with = "serialized::fr")]
    pub coset_generator: Fr,
}

impl DivideByVanishingStep {
    /// The polynomial's value, which is the same everywhere on the coset.
    pub fn divisor(&self) -> Fr {
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
