//! Products of polynomials, the lengths of their rows, and of the transforms that compute them.

use serde::{Deserialize, Serialize};

use super::shapes;
use crate::{
    error::FieldProblem,
    field::FieldId,
    program::{StepInputs, StepKind, StepProblem, ValueId, ValueType, VectorShape},
};

/// Multiplies polynomials, row by row: as a whole, or modulo `X^n - 1` or `X^n + 1`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolyMulStep {
    /// Two values.
    pub inputs: Vec<ValueId>,
    /// What the products are reduced by.
    pub reduction: PolyReduction,
}

impl PolyMulStep {
    /// Whether it multiplies a vector by itself.
    pub fn is_square(&self) -> bool {
        matches!(self.inputs.as_slice(), [a, b] if a == b)
    }

    /// The sizes of a product of these factors.
    pub fn sizes(&self, a: VectorShape, b: VectorShape) -> ProductSizes {
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
            let field = product.field();
            let got = sizes.full;
            let problem = FieldProblem::ProductTooLong { field, max: sizes.max, got };
            return Err(StepProblem::field("inputs", problem));
        }
        Ok(ValueType::Vector(product))
    }

    fn is_row_by_row(&self) -> bool {
        true
    }
}

/// The polynomial that products are reduced by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolyReduction {
    /// None: the whole product.
    #[default]
    None,
    /// `X^n - 1`: cyclic convolution.
    Cyclic(u64),
    /// `X^n + 1`: negacyclic convolution.
    Negacyclic(u64),
}

impl PolyReduction {
    /// The degree n of the polynomial.
    pub const fn degree(self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Cyclic(n) | Self::Negacyclic(n) => Some(n),
        }
    }

    /// The name of the field in the contract that has the degree.
    const fn field_name(self) -> &'static str {
        match self {
            Self::None => "inputs",
            Self::Cyclic(_) => "cyclic",
            Self::Negacyclic(_) => "negacyclic",
        }
    }
}

/// The lengths of the rows of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProductSizes {
    /// The field of the coefficients.
    pub field: FieldId,
    /// What the product is reduced by.
    pub reduction: PolyReduction,
    /// Coefficients of the first factor; if it is longer than the modulus, after its own reduction.
    pub a: u64,
    /// Coefficients of the second factor, like `a`.
    pub b: u64,
    /// Coefficients of the product of these factors before its reduction.
    pub full: u64,
    /// Coefficients of the result.
    pub reduced: u64,
    /// The largest transform of the field.
    pub max: u64,
}

/// How a product of transforms is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProductTransform {
    /// log2 of the transform's size.
    pub lg_n: u32,
    /// log2 of the order of the root of unity that generates the coset. A transform shorter than
    /// the product reduces it: by `X^n - 1` without a coset, and by `X^n + 1` on the coset of a
    /// root of order 2n.
    pub lg_coset: Option<u32>,
}

impl ProductSizes {
    /// The factors have at least one coefficient, and the reduction's degree is not zero.
    pub fn new(a: VectorShape, b: VectorShape, reduction: PolyReduction) -> Self {
        let field = a.field();
        let degree = reduction.degree();
        let [a, b] = [a, b].map(|shape| shape.length().min(degree.unwrap_or(u64::MAX)));
        let full = a + b - 1;
        let reduced = degree.unwrap_or(full);
        let max = 1 << field.two_adicity();
        Self { field, reduction, a, b, full, reduced, max }
    }

    /// The smallest transform that computes the product; `None` if the field has none.
    pub fn transform(&self) -> Option<ProductTransform> {
        self.reducing_transform().or_else(|| self.full_transform())
    }

    /// log2 of the size of [`Self::transform`].
    pub fn lg_transform(&self) -> Option<u32> {
        self.transform().map(|transform| transform.lg_n)
    }

    /// The transform that computes the product before its reduction.
    pub fn full_transform(&self) -> Option<ProductTransform> {
        let lg_n = self.full.next_power_of_two().ilog2();
        (lg_n <= self.field.two_adicity()).then_some(ProductTransform { lg_n, lg_coset: None })
    }

    /// The transform that also reduces the product; `None` if there is none, or if the reduction
    /// does not change the product.
    pub fn reducing_transform(&self) -> Option<ProductTransform> {
        let degree = self.reduction.degree()?;
        // A shorter product is not changed by the reduction.
        if !degree.is_power_of_two() || degree > self.full {
            return None;
        }
        let lg_n = degree.ilog2();
        let is_negacyclic = matches!(self.reduction, PolyReduction::Negacyclic(_));
        let lg_coset = is_negacyclic.then_some(lg_n + 1);
        let lg_root = lg_coset.unwrap_or(lg_n);
        (lg_root <= self.field.two_adicity()).then_some(ProductTransform { lg_n, lg_coset })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Prime31;

    fn transform(a: u64, b: u64, reduction: PolyReduction) -> Option<(u32, Option<u32>)> {
        let row = |length| VectorShape::row(Prime31::P7340033.into(), length).unwrap();
        let sizes = ProductSizes::new(row(a), row(b), reduction);
        sizes.transform().map(|transform| (transform.lg_n, transform.lg_coset))
    }

    #[test]
    fn transforms_are_as_small_as_the_product_and_its_reduction_allow() {
        use PolyReduction::{Cyclic, Negacyclic, None as Whole};
        assert_eq!(transform(1, 1, Whole), Some((0, None)));
        assert_eq!(transform(4, 5, Whole), Some((3, None)));
        assert_eq!(transform(5, 5, Whole), Some((4, None)));
        assert_eq!(transform(1 << 19, 1 << 19, Whole), Some((20, None)));
        assert_eq!(transform((1 << 19) + 1, 1 << 19, Whole), Some((20, None)));
        assert_eq!(transform((1 << 19) + 1, (1 << 19) + 1, Whole), None);
        // The largest transform reduces by X^n - 1; X^n + 1 needs a root of twice the order.
        assert_eq!(transform(1 << 30, 1 << 20, Cyclic(1 << 20)), Some((20, None)));
        assert_eq!(transform(1 << 30, 1 << 20, Negacyclic(1 << 20)), None);
        assert_eq!(transform(1 << 30, 1 << 20, Negacyclic(1 << 19)), Some((19, Some(20))));
        // Other degrees need the whole product, and short products no reduction.
        assert_eq!(transform(100, 100, Cyclic(60)), Some((7, None)));
        assert_eq!(transform(3, 3, Negacyclic(1 << 20)), Some((3, None)));
        assert_eq!(transform(3, 3, Cyclic(4)), Some((2, None)));
        assert_eq!(transform(9, 9, Cyclic(1)), Some((0, None)));
    }
}
