//! Elements that are part of a program. Their field is that of the value that they are used with.

use std::cell::Cell;

use ark_ff::{BigInteger, PrimeField, Zero};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::StepProblem;
use crate::{
    curve::{Fr, serialized},
    error::FieldProblem,
    field::FieldId,
};

thread_local! {
    /// The field of the constants in the text that the thread reads.
    static TEXT_FIELD: Cell<FieldId> = const { Cell::new(FieldId::Bls12381Fr) };
}

/// An element of some field, by its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self")]
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

    /// Calls `read`, which reads steps over `field` from text: text does not tell the field of a
    /// constant.
    pub fn in_text_over<T>(field: FieldId, read: impl FnOnce() -> T) -> T {
        let outer = TEXT_FIELD.replace(field);
        let read = read();
        TEXT_FIELD.set(outer);
        read
    }

    /// The constant 1 of the field of [`Self::in_text_over`].
    pub(crate) fn one_in_text() -> Self {
        Self::one(TEXT_FIELD.get())
    }

    /// The element below the order of `field`, or minus such an element. [`Self::check`] refuses
    /// the constant if there is none.
    fn of_number(number: Fr, field: FieldId) -> Self {
        let FieldId::Prime31(prime) = field else { return Self::Fr(number) };
        let word = |number: Fr| match number.into_bigint().0 {
            [low, 0, 0, 0] => u32::try_from(low).ok().filter(|word| *word < prime.modulus()),
            _ => None,
        };
        let negative = || word(-number).map(|word| prime.modulus() - word);
        Self::Word(word(number).or_else(negative).unwrap_or(u32::MAX))
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

impl Serialize for Constant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for Constant {
    /// In formats that people read, a number of the field of [`Self::in_text_over`].
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !deserializer.is_human_readable() {
            return Self::deserialize(deserializer);
        }
        let number = serialized::fr::deserialize(deserializer)?;
        Ok(Self::of_number(number, TEXT_FIELD.get()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Prime31;

    #[test]
    fn numbers_become_elements_of_the_field_of_their_step() {
        let prime = Prime31::BabyBear;
        let word = |number: i64| {
            let constant = Constant::of_number(number.into(), prime.into());
            constant.check(prime.into()).ok().map(|()| constant)
        };
        let modulus = i64::from(prime.modulus());
        let words = |words: [u32; 3]| words.map(|word| Some(Constant::Word(word)));
        assert_eq!([word(0), word(7), word(-1)], words([0, 7, prime.modulus() - 1]));
        assert_eq!([word(modulus - 1), word(1 - modulus)], [word(-1), word(1)]);
        assert_eq!([word(modulus), word(-modulus), word(i64::MAX)], [None; 3]);
    }
}
