//! Steps that compute each element from elements at the same index.

use serde::{Deserialize, Serialize};

use super::shapes;
use crate::{
    error::FieldProblem,
    program::{Constant, StepInputs, StepKind, StepProblem, ValueId, ValueType},
};

/// What is computed from the elements a, b and c of the inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PointwiseOperation {
    /// a + b
    Add,
    /// a - b
    Subtract,
    /// a b
    Multiply,
    /// a b + c
    MultiplyAdd,
    /// a b - c
    MultiplySubtract,
    /// 1 / a, and 0 for 0
    Invert,
}

impl PointwiseOperation {
    /// The number of inputs.
    pub const fn arity(self) -> usize {
        match self {
            Self::Invert => 1,
            Self::Add | Self::Subtract | Self::Multiply => 2,
            Self::MultiplyAdd | Self::MultiplySubtract => 3,
        }
    }
}

/// Computes each element from the elements at the same index of vectors of the same shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PointwiseStep {
    /// What is computed.
    pub operation: PointwiseOperation,
    /// As many values as the operation has inputs.
    pub inputs: Vec<ValueId>,
}

impl StepKind for PointwiseStep {
    fn name(&self) -> &'static str {
        "pointwise"
    }

    fn inputs(&self) -> StepInputs<'_> {
        StepInputs::List(&self.inputs)
    }

    fn infer(&self, inputs: &[ValueType]) -> Result<ValueType, StepProblem> {
        let expected = self.operation.arity();
        if inputs.len() != expected {
            let (expected, got) = (expected as u64, inputs.len() as u64);
            return Err(StepProblem::field("inputs", FieldProblem::Length { expected, got }));
        }
        Ok(ValueType::Vector(shapes::field_vectors(inputs, true)?[0]))
    }

    fn is_row_by_row(&self) -> bool {
        true
    }

    fn can_overwrite(&self, _: usize) -> bool {
        true
    }
}

/// Adds multiples of vectors of the same shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinearCombinationStep {
    /// The vectors.
    pub inputs: Vec<ValueId>,
    /// One factor per input.
    pub factors: Vec<Constant>,
}

impl StepKind for LinearCombinationStep {
    fn name(&self) -> &'static str {
        "linear_combination"
    }

    fn inputs(&self) -> StepInputs<'_> {
        StepInputs::List(&self.inputs)
    }

    fn infer(&self, inputs: &[ValueType]) -> Result<ValueType, StepProblem> {
        let shape = shapes::field_vectors(inputs, true)?[0];
        if self.factors.len() != inputs.len() {
            let (expected, got) = (inputs.len() as u64, self.factors.len() as u64);
            return Err(StepProblem::field("factors", FieldProblem::Length { expected, got }));
        }
        Constant::check_all(&self.factors, shape.field(), "factors")?;
        Ok(ValueType::Vector(shape))
    }

    fn is_row_by_row(&self) -> bool {
        true
    }

    fn can_overwrite(&self, _: usize) -> bool {
        true
    }
}

/// Multiplies the elements of each row up to each of them: element i of the result is the product
/// of elements 0 to i.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrefixProductStep {
    /// The vector.
    pub input: ValueId,
}

impl StepKind for PrefixProductStep {
    fn name(&self) -> &'static str {
        "prefix_product"
    }

    fn inputs(&self) -> StepInputs<'_> {
        StepInputs::One(&self.input)
    }

    fn infer(&self, inputs: &[ValueType]) -> Result<ValueType, StepProblem> {
        shapes::field_vector(inputs).map(ValueType::Vector)
    }

    fn is_row_by_row(&self) -> bool {
        true
    }

    fn can_overwrite(&self, _: usize) -> bool {
        true
    }
}
