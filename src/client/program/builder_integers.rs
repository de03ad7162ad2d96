//! Vectors of integers, their products and their sums.

use capstan_math::{
    field::FieldId,
    operation::{InputStep, IntMulStep, IntSumStep},
};

use super::{ProgramBuilder, VectorValue, builder::ids};
use crate::error::Result;

impl ProgramBuilder {
    /// Adds integers that each run provides, such as an
    /// [`IntegerVector`](crate::IntegerVector): rows of this number of limbs of 32 bits,
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

    /// Adds multiples of 1 to 8 vectors of integers with the same number of rows, row by row, with
    /// one factor per vector. The rows of the result have `limbs` limbs: a sum is computed modulo
    /// 2^(32 `limbs`), so that a negative one wraps around. The magnitudes of the factors add up to
    /// less than 2^32.
    pub fn int_sum(
        &mut self,
        inputs: &[VectorValue],
        factors: &[i64],
        limbs: u64,
    ) -> Result<VectorValue> {
        let (ids, factors) = (ids(inputs), factors.to_vec());
        self.vector(inputs, IntSumStep { inputs: ids, factors, length: limbs })
    }
}
