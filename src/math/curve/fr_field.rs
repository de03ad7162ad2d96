//! Fr as a field that code for any field computes in.

use ark_ff::Field;

use super::Fr;
use crate::field::{Arithmetic, FieldId, VectorElements};

/// The scalar field Fr of BLS12-381.
#[derive(Debug, Clone, Copy)]
pub struct FrField;

impl VectorElements for FrField {
    type Element = Fr;

    fn id(self) -> FieldId {
        FieldId::Bls12381Fr
    }
}

impl Arithmetic for FrField {
    #[inline]
    fn one(self) -> Fr {
        Fr::ONE
    }

    #[inline]
    fn add(self, a: Fr, b: Fr) -> Fr {
        a + b
    }

    #[inline]
    fn subtract(self, a: Fr, b: Fr) -> Fr {
        a - b
    }

    #[inline]
    fn multiply(self, a: Fr, b: Fr) -> Fr {
        a * b
    }

    fn inverse(self, a: Fr) -> Option<Fr> {
        a.inverse()
    }

    fn power(self, base: Fr, exponent: u64) -> Fr {
        base.pow([exponent])
    }
}
