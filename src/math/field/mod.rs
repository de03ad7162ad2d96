//! The fields that vectors are over. Code that depends on a field takes it from the value.

mod arithmetic;
mod prime31;

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, de::Error};

pub use arithmetic::{Arithmetic, Gf2Words, IntegerLimbs, VectorElements};
pub use prime31::{Element31, Extension, ExtensionField, Field31, Prime31};

/// The field of a vector's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum FieldId {
    /// The scalar field of BLS12-381, of order r.
    #[default]
    Bls12381Fr,
    /// A field of prime order below 2^31.
    Prime31(Prime31),
    /// GF(2): an element of a vector is a word of 64 coefficients.
    Gf2,
    /// Not a field: rows of limbs of 32 bits, the lowest first. A row is one integer, 0 or above.
    Integers,
}

impl FieldId {
    /// Bytes of a vector's element in memory, and in encodings that hold every element.
    pub const fn element_bytes(self) -> u64 {
        match self {
            Self::Bls12381Fr => 32,
            Self::Prime31(_) | Self::Integers => 4,
            Self::Gf2 => 8,
        }
    }

    /// log2 of the largest power of two that divides the order of the multiplicative group, and so
    /// of the largest possible NTT.
    pub const fn two_adicity(self) -> u32 {
        match self {
            Self::Bls12381Fr => 32,
            Self::Prime31(prime) => prime.two_adicity(),
            Self::Gf2 | Self::Integers => 0,
        }
    }

    /// Whether steps compute with the elements of vectors over the field: NTTs, and all that have
    /// constants. Vectors over GF(2) are matrices of bits; limbs are parts of integers.
    pub const fn has_arithmetic(self) -> bool {
        !matches!(self, Self::Gf2 | Self::Integers)
    }

    /// A short name, such as `babybear`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bls12381Fr => "bls12-381-fr",
            Self::Prime31(prime) => prime.name(),
            Self::Gf2 => "gf2",
            Self::Integers => "integers",
        }
    }
}

impl FieldId {
    /// The field with this name.
    pub fn of_name(name: &str) -> Option<Self> {
        let primes = Prime31::ALL.iter().map(|prime| Self::from(*prime));
        let fields = [Self::Bls12381Fr, Self::Gf2, Self::Integers];
        fields.into_iter().chain(primes).find(|field| field.name() == name)
    }

    /// Reads a field, for `serde(deserialize_with)`: in formats that people read, by its name.
    ///
    /// Errors: those of the deserializer; no field has the name.
    pub fn of_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !deserializer.is_human_readable() {
            return Self::deserialize(deserializer);
        }
        let name = String::deserialize(deserializer)?;
        Self::of_name(&name).ok_or_else(|| D::Error::custom(format!("unknown field '{name}'")))
    }
}

impl fmt::Display for FieldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<Prime31> for FieldId {
    fn from(prime: Prime31) -> Self {
        Self::Prime31(prime)
    }
}
