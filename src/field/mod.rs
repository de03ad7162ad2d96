//! The fields that vectors are over. Code that depends on a field takes it from the value.

use serde::{Deserialize, Serialize};

/// The field of a vector's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FieldId {
    /// The scalar field of BLS12-381, of order r.
    Bls12381Fr,
}

impl FieldId {
    /// Bytes of an element in memory, and in encodings that hold every element.
    pub const fn element_bytes(self) -> u64 {
        match self {
            Self::Bls12381Fr => 32,
        }
    }
}
