//! Arithmetic with the secret points at which polynomials are evaluated.

use zeroize::Zeroize;

use crate::{
    curve::{Fr, FrField, scalars},
    field::{Arithmetic, Element31, Extension, ExtensionField, Field31, VectorElements},
};

/// A field with more elements than anybody guesses, which contains that of the coefficients.
pub(super) trait PointField: Copy + Send + Sync {
    /// The field of the coefficients.
    type Base: Arithmetic;

    type Point: Copy + Default + PartialEq + Send + Sync + Zeroize;

    /// Coefficients of a block whose products among each other are computed in the base field, so
    /// that fewer products of points are.
    const BLOCK: usize;

    fn base(self) -> Self::Base;

    fn random(self) -> Self::Point;

    fn one(self) -> Self::Point;

    fn add(self, a: &Self::Point, b: &Self::Point) -> Self::Point;

    fn subtract(self, a: &Self::Point, b: &Self::Point) -> Self::Point;

    fn multiply(self, a: &Self::Point, b: &Self::Point) -> Self::Point;

    /// `coefficient * a`.
    fn scale(
        self,
        a: &Self::Point,
        coefficient: <Self::Base as VectorElements>::Element,
    ) -> Self::Point;

    /// `base^exponent`.
    fn power(self, base: &Self::Point, exponent: u64) -> Self::Point;
}

impl PointField for FrField {
    type Base = Self;
    type Point = Fr;

    const BLOCK: usize = 1;

    fn base(self) -> Self {
        self
    }

    fn random(self) -> Fr {
        *scalars::random_point()
    }

    fn one(self) -> Fr {
        Arithmetic::one(self)
    }

    fn add(self, a: &Fr, b: &Fr) -> Fr {
        *a + b
    }

    fn subtract(self, a: &Fr, b: &Fr) -> Fr {
        *a - b
    }

    fn multiply(self, a: &Fr, b: &Fr) -> Fr {
        *a * b
    }

    fn scale(self, a: &Fr, coefficient: Fr) -> Fr {
        coefficient * a
    }

    fn power(self, base: &Fr, exponent: u64) -> Fr {
        Arithmetic::power(self, *base, exponent)
    }
}

impl PointField for ExtensionField {
    type Base = Field31;
    type Point = Extension;

    const BLOCK: usize = 16;

    fn base(self) -> Field31 {
        self.base
    }

    fn random(self) -> Extension {
        self.random_point()
    }

    fn one(self) -> Extension {
        Self::one(self)
    }

    fn add(self, a: &Extension, b: &Extension) -> Extension {
        Self::add(self, a, b)
    }

    fn subtract(self, a: &Extension, b: &Extension) -> Extension {
        Self::subtract(self, a, b)
    }

    fn multiply(self, a: &Extension, b: &Extension) -> Extension {
        Self::multiply(self, a, b)
    }

    fn scale(self, a: &Extension, coefficient: Element31) -> Extension {
        Self::scale(self, a, coefficient)
    }

    fn power(self, base: &Extension, exponent: u64) -> Extension {
        Self::power(self, base, exponent)
    }
}
