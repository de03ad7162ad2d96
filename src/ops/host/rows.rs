//! Loops over rows, in pieces on the current rayon pool.

use rayon::prelude::*;
use zeroize::Zeroizing;

use crate::{
    curve::Fr,
    engine::{JobControl, long_rows},
    error::Result,
    program::VectorShape,
};

/// The rows of a vector. They are wiped when dropped. Never make one longer: growing would leave an
/// unwiped copy behind.
pub type HostRows = Zeroizing<Vec<Vec<Fr>>>;

/// Elements of a piece: at least ten microseconds of work.
const PIECE_ELEMENTS: usize = 4096;

/// The position of a piece.
#[derive(Debug, Clone, Copy)]
pub struct RowPiece {
    pub row: usize,
    /// Index of the piece's first element.
    pub first: usize,
}

/// Rows of zeros.
///
/// Errors: those of `control`.
pub fn zeros(shape: VectorShape, control: &JobControl) -> Result<HostRows> {
    let length = shape.length() as usize;
    rows_of(shape.rows() as usize, length, |_, out| long_rows::pad(out, length, control))
}

/// The rows with zeros after them, up to `length` elements.
///
/// Errors: those of `control`.
pub fn padded(rows: &[Vec<Fr>], length: usize, control: &JobControl) -> Result<HostRows> {
    rows_of(rows.len(), length, |row, out| {
        long_rows::append(out, &rows[row], control)?;
        long_rows::pad(out, length, control)
    })
}

/// `count` rows, which `fill` makes from empty ones with room for `length` elements.
pub fn rows_of(
    count: usize,
    length: usize,
    mut fill: impl FnMut(usize, &mut Vec<Fr>) -> Result<()>,
) -> Result<HostRows> {
    let mut rows = Zeroizing::new(Vec::with_capacity(count));
    for row in 0..count {
        rows.push(Vec::with_capacity(length));
        fill(row, &mut rows[row])?;
    }
    Ok(rows)
}

/// Calls `visit` with each piece of the rows, unless the job has to stop.
///
/// Errors: those of `control`.
pub fn for_each_piece(
    rows: &mut [Vec<Fr>],
    control: &JobControl,
    visit: impl Fn(RowPiece, &mut [Fr]) + Sync,
) -> Result<()> {
    rows.par_iter_mut().enumerate().try_for_each(|(row, elements)| {
        let pieces = elements.par_chunks_mut(PIECE_ELEMENTS).enumerate();
        pieces.try_for_each(|(piece, elements)| {
            control.check()?;
            visit(RowPiece { row, first: piece * PIECE_ELEMENTS }, elements);
            Ok(())
        })
    })
}
