//! The program that converts a fraction to rows of fewer digits, which the client converts.
//!
//! A row has a fraction v, of which 2h digits are wanted. Its highest limbs are a fraction with the
//! first h digits, and the fraction of v 10^h is one with the others. 10^h is 5^h times a power of
//! two that moves the point by whole limbs. A fraction with an error of c units of its last limb
//! makes one with an error below c + 1 units of the new last limb, since each level has at least as
//! many limbs more as 10^h has.

use capstan::client::{ClientProgram, ProgramBuilder, Result, VectorValue};

use super::{
    series::shortened,
    sizes::{Sizes, limbs_of_power},
};

/// The most copies that one step makes.
const COPIES_MAX: u32 = 256;

/// The program and its values.
pub struct ConversionProgram {
    pub program: ClientProgram,
    pub fraction: VectorValue,
    /// 5 to the power of a chunk's digits; without an input if there is only one chunk.
    pub power: Option<VectorValue>,
    /// A fraction for each chunk.
    pub chunks: VectorValue,
}

impl ConversionProgram {
    pub fn new(sizes: &Sizes) -> Result<Self> {
        let mut builder = ProgramBuilder::new();
        let fraction = builder.input_integers(1, sizes.pi_limbs())?;
        let powers = powers(&mut builder, sizes)?;
        let mut rows = fraction;
        for (level, power) in powers.iter().enumerate().rev() {
            let (limbs, half) = (sizes.fraction_limbs[level + 1], sizes.fraction_limbs[level]);
            let high = builder.slice(rows, limbs - half, half)?;
            let power = repeated(&mut builder, *power, rows.rows())?;
            let product = builder.int_mul(rows, power)?;
            let point = limbs - (sizes.chunk_digits << level) / 32;
            let low = builder.slice(product, point - half, half)?;
            let both = builder.concat(&[high, low])?;
            rows = builder.reshape(both, 2 * rows.rows())?;
        }
        let program = builder.build()?;
        Ok(Self { program, fraction, power: powers.first().copied(), chunks: rows })
    }
}

/// 5 to the power of the digits of one chunk, of two, of four, and so on: one for each level.
fn powers(builder: &mut ProgramBuilder, sizes: &Sizes) -> Result<Vec<VectorValue>> {
    let mut powers: Vec<VectorValue> = Vec::new();
    for level in 0..sizes.levels() {
        let limbs = limbs_of_power(5, sizes.chunk_digits << level);
        powers.push(match powers.last() {
            None => builder.input_integers(1, limbs)?,
            Some(&power) => {
                let square = builder.int_mul(power, power)?;
                shortened(builder, square, limbs)?
            }
        });
    }
    Ok(powers)
}

/// A row, as often as `rows`, a power of two, says.
fn repeated(builder: &mut ProgramBuilder, row: VectorValue, rows: u32) -> Result<VectorValue> {
    let (mut copies, mut all) = (1, row);
    while copies < rows {
        let added = COPIES_MAX.min(rows / copies);
        all = builder.concat(&vec![all; added as usize])?;
        copies *= added;
    }
    builder.reshape(all, rows)
}
