//! The lengths of a product, and of the transforms that compute it.

use super::reduction::PolyReduction;
#[cfg(feature = "server")]
use crate::verify::ProductModulus;
use crate::{field::FieldId, program::VectorShape};

/// log2 of the shortest rows that a GPU multiplies in one pass.
#[cfg(feature = "cuda")]
const LG_DEVICE_MIN: u32 = 8;

/// The lengths of the rows of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProductSizes {
    pub field: FieldId,
    pub reduction: PolyReduction,
    /// Coefficients of the factors; of longer ones, after their own reduction.
    pub a: u64,
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
pub(super) struct ProductTransform {
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
        let (reduced, max) = (degree.unwrap_or(full), 1 << field.two_adicity());
        Self { field, reduction, a, b, full, reduced, max }
    }

    /// The smallest transform that computes the product; `None` if the field has none.
    pub fn transform(&self) -> Option<ProductTransform> {
        self.reducing_transform().or_else(|| self.full_transform())
    }

    /// The transform by which a GPU computes the product, before its reduction if `is_whole`.
    #[cfg(feature = "cuda")]
    pub fn device_transform(&self, is_whole: bool) -> Option<ProductTransform> {
        let is_served = |transform: &ProductTransform| transform.lg_n >= LG_DEVICE_MIN && !is_whole;
        let full = self.full_transform().map(|transform| {
            let lg_n = transform.lg_n.max(LG_DEVICE_MIN);
            ProductTransform { lg_n, ..transform }
        });
        self.reducing_transform().filter(is_served).or(full)
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

    /// What the check of a reduced product knows of the reduction.
    #[cfg(feature = "server")]
    pub fn modulus(&self) -> Option<ProductModulus> {
        match self.reduction {
            PolyReduction::None => None,
            PolyReduction::Cyclic(degree) => Some(ProductModulus { degree, is_negacyclic: false }),
            PolyReduction::Negacyclic(degree) => {
                Some(ProductModulus { degree, is_negacyclic: true })
            }
        }
    }

    fn reducing_transform(&self) -> Option<ProductTransform> {
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
