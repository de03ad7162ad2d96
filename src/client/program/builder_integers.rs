//! Vectors of integers, and their products.

use super::{ProgramBuilder, VectorValue, builder::ids};
use crate::{
    client::error::Result,
    field::FieldId,
    ops::{InputStep, IntMulStep},
};

impl ProgramBuilder {
    /// Adds integers that each run provides, such as an
    /// [`IntegerVector`](crate::client::IntegerVector): rows of this number of limbs of 32 bits,
    /// the lowest first.
    pub fn input_integers(&mut self, rows: u32, limbs: u64) -> Result<VectorValue> {
        self.vector(&[], InputStep { field: FieldId::Integers, rows, length: limbs })
    }

    /// Multiplies integers, row by row: vectors with the same number of rows, of at least one limb.
    /// A product has as many limbs as both factors, at most 2^26. The same vector twice is squared,
    /// which takes about two thirds of the time.
    pub fn int_mul(&mut self, a: VectorValue, b: VectorValue) -> Result<VectorValue> {
        let inputs = [a, b];
        self.vector(&inputs, IntMulStep { inputs: ids(&inputs) })
    }
}
