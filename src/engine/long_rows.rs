//! Rows that are filled piece by piece, so that a job can stop while it makes a long one.

use ark_ff::AdditiveGroup;

use super::JobControl;
use crate::{curve::Fr, error::Result};

/// Elements between two checks: 2 MiB, which take about a millisecond.
const PIECE_ELEMENTS: usize = 1 << 16;

/// Appends `elements`.
///
/// Shape: the row has the capacity. Growing would leave an unwiped copy behind.
/// Errors: those of `control`.
pub fn append(row: &mut Vec<Fr>, elements: &[Fr], control: &JobControl) -> Result<()> {
    for piece in elements.chunks(PIECE_ELEMENTS) {
        control.check()?;
        row.extend_from_slice(piece);
    }
    Ok(())
}

/// Appends zeros up to `length` elements.
///
/// Shape: the row has the capacity.
/// Errors: those of `control`.
pub fn pad(row: &mut Vec<Fr>, length: usize, control: &JobControl) -> Result<()> {
    while row.len() < length {
        control.check()?;
        row.resize(length.min(row.len() + PIECE_ELEMENTS), Fr::ZERO);
    }
    Ok(())
}
