//! Vectors of integers.

use super::{FieldId, VectorElements};

/// Rows that are integers. An element is a limb of 32 bits, the lowest first.
#[derive(Debug, Clone, Copy)]
pub struct IntegerLimbs;

impl VectorElements for IntegerLimbs {
    type Element = u32;

    fn id(self) -> FieldId {
        FieldId::Integers
    }
}
