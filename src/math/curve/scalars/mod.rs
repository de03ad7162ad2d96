//! Elements of Fr and narrow scalars, and their encodings.

mod decode;
mod elements;
mod notation;

use ark_ff::{AdditiveGroup, Field, PrimeField};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

pub use decode::{decode_fr, encode_fr};
pub use elements::ElementCodec;
pub use notation::Notation;

use crate::{
    curve::{Fr, TWO_ADICITY},
    field::FieldId,
};

/// Encodings of scalars and of elements. See `proto/capstan/v1/types.proto` for each layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ScalarEncoding {
    /// 32 bytes little-endian, less than r.
    Canonical,
    /// Four 64-bit Montgomery limbs, little-endian.
    Montgomery,
    /// Unsigned integers of this many bytes (1, 2, 4, 8 or 16), little-endian.
    Unsigned(u8),
    /// Two's complement integers of this many bytes (1, 2, 4, 8 or 16), little-endian.
    Signed(u8),
    /// 4 bytes little-endian, less than a prime below 2^31.
    Canonical31,
    /// Montgomery form (factor 2^32) for a prime below 2^31: 4 bytes little-endian.
    Montgomery31,
    /// 64 coefficients over GF(2): 8 bytes little-endian, the first coefficient in the lowest bit.
    PackedBits64,
    /// A limb of 32 bits of an integer: 4 bytes little-endian. The limbs are the lowest first.
    Limbs32,
}

impl ScalarEncoding {
    /// Bytes of one element.
    pub const fn width(self) -> usize {
        match self {
            Self::Canonical | Self::Montgomery => 32,
            Self::Unsigned(width) | Self::Signed(width) => width as usize,
            Self::Canonical31 | Self::Montgomery31 | Self::Limbs32 => 4,
            Self::PackedBits64 => 8,
        }
    }

    /// True for the two encodings that hold every element of Fr.
    pub const fn is_full(self) -> bool {
        self.holds(FieldId::Bls12381Fr)
    }

    /// True for the encodings of elements of the field, which hold every element.
    pub const fn holds(self, field: FieldId) -> bool {
        match field {
            FieldId::Bls12381Fr => matches!(self, Self::Canonical | Self::Montgomery),
            FieldId::Prime31(_) => matches!(self, Self::Canonical31 | Self::Montgomery31),
            FieldId::Gf2 => matches!(self, Self::PackedBits64),
            FieldId::Integers => matches!(self, Self::Limbs32),
        }
    }

    /// The encoding of elements as callers hold them: `Fr`, `u32` below the prime or limbs, `u64`
    /// of 64 bits.
    pub const fn typed(field: FieldId) -> Self {
        match field {
            FieldId::Prime31(_) => Self::Canonical31,
            _ => Self::in_memory(field),
        }
    }

    /// The encoding in which engines hold a vector's elements.
    pub const fn in_memory(field: FieldId) -> Self {
        match field {
            FieldId::Bls12381Fr => Self::Montgomery,
            FieldId::Prime31(_) => Self::Montgomery31,
            FieldId::Gf2 => Self::PackedBits64,
            FieldId::Integers => Self::Limbs32,
        }
    }

    /// True for encodings of integers, which MSMs take as scalars.
    pub const fn is_integer(self) -> bool {
        matches!(self, Self::Unsigned(_) | Self::Signed(_))
    }
}

/// Scalars as engines take them: magnitudes of equal width, and signs if any scalar is negative.
/// Zeroed on drop; `Debug` prints none of the values.
pub struct Scalars {
    width: usize,
    magnitudes: Zeroizing<Vec<u8>>,
    signs: Option<Zeroizing<Vec<bool>>>,
}

impl Scalars {
    /// The number of scalars.
    pub fn len(&self) -> usize {
        self.magnitudes.len() / self.width
    }

    /// True if there are no scalars.
    pub fn is_empty(&self) -> bool {
        self.magnitudes.is_empty()
    }

    /// Bytes of one magnitude: 32 for elements of Fr (then below r), 1 to 16 for narrow ones.
    #[inline]
    pub fn width(&self) -> usize {
        self.width
    }

    /// The magnitudes, `len * width` bytes little-endian.
    #[inline]
    pub fn magnitudes(&self) -> &[u8] {
        &self.magnitudes
    }

    /// Which scalars are negative; `None` if none is.
    #[inline]
    pub fn signs(&self) -> Option<&[bool]> {
        self.signs.as_deref().map(Vec::as_slice)
    }
}

impl std::fmt::Debug for Scalars {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Scalars({} x {} bytes)", self.len(), self.width)
    }
}

/// A random element outside the subgroups of NTTs, with which results are checked.
pub fn random_point() -> Zeroizing<Fr> {
    loop {
        let mut bytes = Zeroizing::new([0; 48]);
        getrandom::fill(&mut *bytes).expect("the operating system provides random bytes");
        // Reducing 384 bits modulo r gives a bias below 2^-128.
        let point = Zeroizing::new(Fr::from_le_bytes_mod_order(&*bytes));
        if *point != Fr::ZERO && point.pow([1 << TWO_ADICITY]) != Fr::ONE {
            return point;
        }
    }
}
