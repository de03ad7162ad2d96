//! Multiplies integers, row by row.

#[cfg(feature = "server")]
mod cpu;
#[cfg(feature = "cuda")]
mod gpu;

use serde::{Deserialize, Serialize};

use super::shapes;
use crate::{
    error::FieldProblem,
    field::FieldId,
    integers::PRODUCT_LIMBS_MAX,
    program::{StepInputs, StepKind, StepProblem, ValueId, ValueType, VectorShape},
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IntMulStep {
    /// Two values.
    pub inputs: Vec<ValueId>,
}

impl IntMulStep {
    /// Whether it multiplies a vector by itself.
    #[cfg(feature = "server")]
    fn is_square(&self) -> bool {
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
