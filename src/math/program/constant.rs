//! Elements that are part of a program. Their field is that of the value that they are used with.

use ark_ff::{BigInteger, PrimeField, Zero};
use serde::{Deserialize, Serialize};

use super::StepProblem;
use crate::{
    curve::{Fr, serialized},
    error::FieldProblem,
    field::FieldId,
};

/// An element of some field, by its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Constant {
    /// An element of Fr.
    Fr(#[serde(with = "serialized::fr")] Fr),
    /// An element of a field of a prime below 2^31, or too large for one.
    Word(u32),
}

impl Constant {
    /// The constant 1 for steps that compute in `field`.
    pub fn one(field: FieldId) -> Self {
        match field {
            FieldId::Bls12381Fr => Self::Fr(Fr::from(1_u64)),
            FieldId::Prime31(_) | FieldId::Gf2 | FieldId::Integers => Self::Word(1),
        }
    }

    /// Whether the element is 0.
    pub fn is_zero(self) -> bool {
        match self {
            Self::Fr(element) => element.is_zero(),
            Self::Word(word) => word == 0,
        }
    }

    /// Canonical little-endian bytes: 32 or 4.
    pub fn to_bytes_le(self) -> Vec<u8> {
        match self {
            Self::Fr(element) => element.into_bigint().to_bytes_le(),
            Self::Word(word) => word.to_le_bytes().to_vec(),
        }
    }

    /// Checks that it is an element of the field.
    ///
    /// Errors: `UnsupportedField` for GF(2) and for limbs, which have no constants.
    pub fn check(self, field: FieldId) -> Result<(), FieldProblem> {
        match (self, field) {
            (Self::Fr(_), FieldId::Bls12381Fr) => Ok(()),
            (Self::Word(word), FieldId::Prime31(prime)) if word < prime.modulus() => Ok(()),
            (Self::Word(_), FieldId::Prime31(_)) => Err(FieldProblem::NotCanonical),
            (_, FieldId::Gf2 | FieldId::Integers) => Err(FieldProblem::UnsupportedField { field }),
            (Self::Fr(_), FieldId::Prime31(_)) | (Self::Word(_), FieldId::Bls12381Fr) => {
                let got = if matches!(self, Self::Fr(_)) { 32 } else { 4 };
                Err(FieldProblem::Length { expected: field.element_bytes(), got })
            }
        }
    }

    /// Checks that each is an element of the field. `name` is the step's field that holds them.
    pub fn check_all(
        constants: &[Self],
        field: FieldId,
        name: &'static str,
    ) -> Result<(), StepProblem> {
        constants.iter().enumerate().try_for_each(|(index, constant)| {
            constant.check(field).map_err(|problem| StepProblem::element(name, index, problem))
        })
    }
}

impl From<Fr> for Constant {
    fn from(element: Fr) -> Self {
        Self::Fr(element)
    }
}

impl From<u32> for Constant {
    fn from(word: u32) -> Self {
        Self::Word(word)
    }
}
