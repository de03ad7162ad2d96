//! Vectors over GF(2).

use super::{FieldId, VectorElements};

/// GF(2). An element of a vector is a word of 64 coefficients, the first one in the lowest bit.
#[derive(Debug, Clone, Copy)]
pub struct Gf2Words;

impl VectorElements for Gf2Words {
    type Element = u64;

    fn id(self) -> FieldId {
        FieldId::Gf2
    }
}
