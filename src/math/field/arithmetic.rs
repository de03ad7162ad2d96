//! The elements of vectors, and the arithmetic of a field, for code that works over any of them.

use zeroize::Zeroize;

use super::FieldId;

/// The elements of the vectors over a field that is known when the code runs.
pub trait VectorElements: Copy + Send + Sync + 'static {
    /// An element of a vector; the default is zero.
    type Element: Copy + Default + PartialEq + Send + Sync + Zeroize + 'static;

    /// Which field it is.
    fn id(self) -> FieldId;
}

/// GF(2). An element of a vector is a word of 64 coefficients, the first one in the lowest bit.
#[derive(Debug, Clone, Copy)]
pub struct Gf2Words;

impl VectorElements for Gf2Words {
    type Element = u64;

    fn id(self) -> FieldId {
        FieldId::Gf2
    }
}

/// Rows that are integers. An element is a limb of 32 bits, the lowest first.
#[derive(Debug, Clone, Copy)]
pub struct IntegerLimbs;

impl VectorElements for IntegerLimbs {
    type Element = u32;

    fn id(self) -> FieldId {
        FieldId::Integers
    }
}

/// A field in which steps compute element by element. Values of the type hold what arithmetic needs
/// to know, such as the prime.
pub trait Arithmetic: VectorElements {
    /// 1.
    fn one(self) -> Self::Element;

    /// `a + b`.
    fn add(self, a: Self::Element, b: Self::Element) -> Self::Element;

    /// `a - b`.
    fn subtract(self, a: Self::Element, b: Self::Element) -> Self::Element;

    /// `a b`.
    fn multiply(self, a: Self::Element, b: Self::Element) -> Self::Element;

    /// 1 / a; `None` for 0.
    fn inverse(self, a: Self::Element) -> Option<Self::Element>;

    /// `base^exponent`.
    fn power(self, base: Self::Element, mut exponent: u64) -> Self::Element {
        let (mut power, mut square) = (self.one(), base);
        while exponent > 0 {
            if exponent & 1 == 1 {
                power = self.multiply(power, square);
            }
            square = self.multiply(square, square);
            exponent >>= 1;
        }
        power
    }
}
