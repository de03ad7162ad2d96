//! Elements of vectors that a run returns.

use capstan_math::{
    curve::{Fr, layout::fr_as_bytes_mut},
    field::{FieldId, Prime31},
};
use zeroize::Zeroizing;

use crate::{convert, error::Result};

/// Elements in the encoding of their field. Wiped when dropped.
pub(crate) enum ReceivedElements {
    Fr(Zeroizing<Vec<Fr>>),
    Words(Prime31, Zeroizing<Vec<u32>>),
    Bits(Zeroizing<Vec<u64>>),
    Limbs(Zeroizing<Vec<u32>>),
}

impl ReceivedElements {
    /// Errors: `InvalidInput` if there is no memory for them.
    pub fn zeros(field: FieldId, count: u64) -> Result<Self> {
        Ok(match field {
            FieldId::Bls12381Fr => Self::Fr(convert::fr_zeros("outputs", count)?),
            FieldId::Prime31(prime) => Self::Words(prime, convert::zeros("outputs", count, 1)?),
            FieldId::Gf2 => Self::Bits(convert::zeros("outputs", count, 1)?),
            FieldId::Integers => Self::Limbs(convert::zeros("outputs", count, 1)?),
        })
    }

    pub fn len(&self) -> usize {
        match self {
            Self::Fr(elements) => elements.len(),
            Self::Words(_, words) => words.len(),
            Self::Bits(words) => words.len(),
            Self::Limbs(limbs) => limbs.len(),
        }
    }

    /// The bytes, to be overwritten.
    pub fn as_bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Fr(elements) => fr_as_bytes_mut(elements),
            Self::Words(_, words) => bytemuck::cast_slice_mut(words),
            Self::Bits(words) => bytemuck::cast_slice_mut(words),
            Self::Limbs(limbs) => bytemuck::cast_slice_mut(limbs),
        }
    }

    /// Errors: `InvalidResponse` if an element is not below the modulus.
    pub fn check(&mut self) -> Result<()> {
        match self {
            Self::Fr(elements) => convert::check_canonical(elements),
            Self::Words(prime, words) => convert::check_words(words, *prime),
            // Every word is canonical.
            Self::Bits(_) | Self::Limbs(_) => Ok(()),
        }
    }
}
