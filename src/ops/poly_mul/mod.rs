//! Multiplies polynomials, row by row: as a whole, or modulo `X^n - 1` or `X^n + 1`.

#[cfg(feature = "server")]
mod cpu;
#[cfg(feature = "server")]
mod fold;
#[cfg(feature = "server")]
mod gpu;
mod reduction;
#[cfg(feature = "server")]
mod short;
mod sizes;

use serde::{Deserialize, Serialize};

pub use self::reduction::PolyReduction;
use self::sizes::ProductSizes;
use super::shapes;
use crate::{
    error::FieldProblem,
    program::{StepInputs, StepKind, StepProblem, ValueId, ValueType, VectorShape},
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PolyMulStep {
    /// Two values.
    pub inputs: Vec<ValueId>,
    pub reduction: PolyReduction,
}

impl PolyMulStep {
    /// Whether it multiplies a vector by itself.
    #[cfg(feature = "server")]
    fn is_square(&self) -> bool {
        matches!(self.inputs.as_slice(), [a, b] if a == b)
    }

    #[cfg(feature = "server")]
    fn sizes(&self, a: VectorShape, b: VectorShape) -> ProductSizes {
        ProductSizes::new(a, b, self.reduction)
    }
}

impl StepKind for PolyMulStep {
    fn name(&self) -> &'static str {
        "poly_mul"
    }

    fn inputs(&self) -> StepInputs<'_> {
        StepInputs::List(&self.inputs)
    }

    fn infer(&self, inputs: &[ValueType]) -> Result<ValueType, StepProblem> {
        if inputs.len() != 2 {
            let (expected, got) = (2, inputs.len() as u64);
            return Err(StepProblem::field("inputs", FieldProblem::Length { expected, got }));
        }
        let shapes = shapes::field_vectors(inputs, false)?;
        if let Some(empty) = shapes.iter().position(|shape| shape.length() == 0) {
            return Err(StepProblem::element("inputs", empty, FieldProblem::Empty));
        }
        let refused = |problem| StepProblem::field(self.reduction.field_name(), problem);
        if self.reduction.degree() == Some(0) {
            return Err(refused(FieldProblem::Zero));
        }
        let sizes = ProductSizes::new(shapes[0], shapes[1], self.reduction);
        let product = shapes[0].with_length(sizes.reduced).map_err(refused)?;
        if sizes.lg_transform().is_none() {
            let (field, got) = (product.field(), sizes.full);
            let problem = FieldProblem::ProductTooLong { field, max: sizes.max, got };
            return Err(StepProblem::field("inputs", problem));
        }
        Ok(ValueType::Vector(product))
    }

    fn is_row_by_row(&self) -> bool {
        true
    }
}
