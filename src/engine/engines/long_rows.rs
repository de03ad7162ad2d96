//! Rows that are filled piece by piece, so that a job can stop while it makes a long one.

use super::JobControl;
use crate::error::Result;

/// Elements between two checks: at most 2 MiB, which take about a millisecond.
const PIECE_ELEMENTS: usize = 1 << 16;

/// Appends `elements`.
///
/// Shape: the row has the capacity. Growing would leave an unwiped copy behind.
/// Errors: those of `control`.
pub fn append<E: Copy>(row: &mut Vec<E>, elements: &[E], control: &JobControl) -> Result<()> {
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
pub fn pad<E: Copy + Default>(row: &mut Vec<E>, length: usize, control: &JobControl) -> Result<()> {
    while row.len() < length {
        control.check()?;
        row.resize(length.min(row.len() + PIECE_ELEMENTS), E::default());
    }
    Ok(())
}
