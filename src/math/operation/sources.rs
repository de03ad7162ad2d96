//! Steps that make vectors without other values.

use serde::{Deserialize, Serialize};

use crate::{
    error::FieldProblem,
    field::FieldId,
    program::{
        Constant, ExternalOperand, StepInputs, StepKind, StepProblem, ValueType, VectorShape,
    },
};

/// Makes a vector of the next input of the call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputStep {
    /// The field of the elements.
    #[serde(default, deserialize_with = "FieldId::of_text")]
    pub field: FieldId,
    /// The number of rows.
    pub rows: u32,
    /// Elements of each row.
    pub length: u64,
}

impl StepKind for InputStep {
    fn name(&self) -> &'static str {
        "input"
    }

    fn inputs(&self) -> StepInputs<'_> {
        StepInputs::None
    }

    fn infer(&self, _: &[ValueType]) -> Result<ValueType, StepProblem> {
        let shape = VectorShape::row(self.field, 0).and_then(|row| row.with_rows(self.rows));
        let shape = shape.map_err(|problem| StepProblem::field("rows", problem))?;
        let shape = shape.with_length(self.length);
        shape.map(ValueType::Vector).map_err(|problem| StepProblem::field("length", problem))
    }

    fn operand(&self) -> Option<ExternalOperand> {
        Some(ExternalOperand::Input)
    }
}

const ELEMENTS_MAX: usize = 1024;

/// Makes one row of elements that are part of the program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConstantStep {
    /// The field of the elements.
    #[serde(default, deserialize_with = "FieldId::of_text")]
    pub field: FieldId,
    /// The elements of the row.
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

/// Makes one row: first, first * base, first * base^2, ...
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PowersStep {
    /// The field of the elements.
    #[serde(default, deserialize_with = "FieldId::of_text")]
    pub field: FieldId,
    /// The factor between neighbours.
    pub base: Constant,
    /// The first element.
    #[serde(default = "Constant::one_in_text")]
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
