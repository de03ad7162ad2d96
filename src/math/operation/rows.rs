//! Steps that move the elements of rows.

use serde::{Deserialize, Serialize};

use super::shapes;
use crate::{
    error::FieldProblem,
    program::{StepInputs, StepKind, StepProblem, ValueId, ValueType, VectorShape},
};

/// Takes a range of each row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SliceStep {
    /// The vector.
    pub input: ValueId,
    /// Index of the first element.
    pub offset: u64,
    /// Number of elements.
    pub length: u64,
}

impl StepKind for SliceStep {
    fn name(&self) -> &'static str {
        "slice"
    }

    fn inputs(&self) -> StepInputs<'_> {
        StepInputs::One(&self.input)
    }

    fn infer(&self, inputs: &[ValueType]) -> Result<ValueType, StepProblem> {
        let shape = shapes::vector(inputs)?;
        let too_large = |field, max| StepProblem::field(field, FieldProblem::TooLarge { max });
        let rest = shape.length().checked_sub(self.offset);
        let rest = rest.ok_or(too_large("offset", shape.length()))?;
        if self.length > rest {
            return Err(too_large("length", rest));
        }
        let shape = shape.with_length(self.length);
        shape.map(ValueType::Vector).map_err(|problem| StepProblem::field("length", problem))
    }

    fn is_row_by_row(&self) -> bool {
        true
    }
}

/// Appends vectors with the same number of rows, row by row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConcatStep {
    /// The vectors, in the order of their elements.
    pub inputs: Vec<ValueId>,
}

impl StepKind for ConcatStep {
    fn name(&self) -> &'static str {
        "concat"
    }

    fn inputs(&self) -> StepInputs<'_> {
        StepInputs::List(&self.inputs)
    }

    fn infer(&self, inputs: &[ValueType]) -> Result<ValueType, StepProblem> {
        let shapes = shapes::vectors(inputs, false)?;
        let length = shapes.iter().copied().map(VectorShape::length).sum();
        let shape = shapes[0].with_length(length);
        shape.map(ValueType::Vector).map_err(|problem| StepProblem::field("inputs", problem))
    }

    fn is_row_by_row(&self) -> bool {
        true
    }
}

/// Appends zeros to each row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PadStep {
    /// The vector.
    pub input: ValueId,
    /// Elements of each row of the result.
    pub length: u64,
}

impl StepKind for PadStep {
    fn name(&self) -> &'static str {
        "pad"
    }

    fn inputs(&self) -> StepInputs<'_> {
        StepInputs::One(&self.input)
    }

    fn infer(&self, inputs: &[ValueType]) -> Result<ValueType, StepProblem> {
        let shape = shapes::vector(inputs)?;
        let padded = match self.length < shape.length() {
            true => Err(FieldProblem::TooSmall { min: shape.length() }),
            false => shape.with_length(self.length),
        };
        padded.map(ValueType::Vector).map_err(|problem| StepProblem::field("length", problem))
    }

    fn is_row_by_row(&self) -> bool {
        true
    }
}

/// Regroups the elements of a vector into another number of rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReshapeStep {
    /// The vector.
    pub input: ValueId,
    /// Rows of the result.
    pub rows: u32,
}

impl StepKind for ReshapeStep {
    fn name(&self) -> &'static str {
        "reshape"
    }

    fn inputs(&self) -> StepInputs<'_> {
        StepInputs::One(&self.input)
    }

    fn infer(&self, inputs: &[ValueType]) -> Result<ValueType, StepProblem> {
        let shape = shapes::vector(inputs)?;
        let refused = |problem| StepProblem::field("rows", problem);
        if self.rows == 0 {
            return Err(refused(FieldProblem::Zero));
        }
        let elements = shape.elements();
        if !elements.is_multiple_of(self.rows.into()) {
            return Err(refused(FieldProblem::NotDivisor { of: elements }));
        }
        let row = VectorShape::row(shape.field(), elements / u64::from(self.rows));
        let shape = row.and_then(|row| row.with_rows(self.rows));
        shape.map(ValueType::Vector).map_err(refused)
    }
}
