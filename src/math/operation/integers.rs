//! Steps over integers.

use serde::{Deserialize, Serialize};

use super::shapes;
use crate::{
    error::FieldProblem,
    field::FieldId,
    program::{StepInputs, StepKind, StepProblem, ValueId, ValueType, VectorShape},
};

/// The most terms of a sum.
pub const SUM_TERMS_MAX: usize = 8;
/// The maximum sum of the factors' magnitudes: a column of limbs times factors and what is carried
/// into it are then below 2^64.
pub const MAGNITUDES_MAX: u64 = (1 << 32) - 1;

/// Limbs of the longest product: a coefficient of a longer one may be too large for the primes, and
/// they have no longer transforms.
pub const PRODUCT_LIMBS_MAX: u64 = 1 << 26;

/// Multiplies integers, row by row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IntMulStep {
    /// Two values.
    pub inputs: Vec<ValueId>,
}

impl IntMulStep {
    /// Whether it multiplies a vector by itself.
    pub fn is_square(&self) -> bool {
        matches!(self.inputs.as_slice(), [a, b] if a == b)
    }
}

impl StepKind for IntMulStep {
    fn name(&self) -> &'static str {
        "int_mul"
    }

    fn inputs(&self) -> StepInputs<'_> {
        StepInputs::List(&self.inputs)
    }

    fn infer(&self, inputs: &[ValueType]) -> Result<ValueType, StepProblem> {
        if inputs.len() != 2 {
            let (expected, got) = (2, inputs.len() as u64);
            return Err(StepProblem::field("inputs", FieldProblem::Length { expected, got }));
        }
        let shapes = shapes::vectors(inputs, false)?;
        let field = shapes[0].field();
        if field != FieldId::Integers {
            let problem = FieldProblem::UnsupportedField { field };
            return Err(StepProblem::element("inputs", 0, problem));
        }
        if let Some(empty) = shapes.iter().position(|shape| shape.length() == 0) {
            return Err(StepProblem::element("inputs", empty, FieldProblem::Empty));
        }
        // Lengths are below 2^40 each.
        let got = shapes.iter().copied().map(VectorShape::length).sum();
        if got > PRODUCT_LIMBS_MAX {
            let problem = FieldProblem::IntegerTooLong { max: PRODUCT_LIMBS_MAX, got };
            return Err(StepProblem::field("inputs", problem));
        }
        let product = shapes[0].with_length(got);
        product.map(ValueType::Vector).map_err(|problem| StepProblem::field("inputs", problem))
    }

    fn is_row_by_row(&self) -> bool {
        true
    }
}

/// Adds multiples of integers, row by row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IntSumStep {
    /// The integers.
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
