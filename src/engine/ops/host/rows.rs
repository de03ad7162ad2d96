//! Loops over rows, in pieces on the current rayon pool.

use rayon::prelude::*;
use zeroize::{Zeroize, Zeroizing};

use crate::{
    curve::Fr,
    engines::{JobControl, long_rows},
    error::Result,
    field::{Element31, Field31},
    program::VectorShape,
};

/// The rows of a vector. They are wiped when dropped. Never make one longer: growing would leave an
/// unwiped copy behind.
pub type Rows<E> = Zeroizing<Vec<Vec<E>>>;

/// The rows of a vector over any field.
#[derive(PartialEq)]
pub enum HostRows {
    Fr(Rows<Fr>),
    Prime31(Field31, Rows<Element31>),
    Gf2(Rows<u64>),
    Integers(Rows<u32>),
}

impl HostRows {
    /// The number of rows.
    pub fn count(&self) -> usize {
        match self {
            Self::Fr(rows) => rows.len(),
            Self::Prime31(_, rows) => rows.len(),
            Self::Gf2(rows) => rows.len(),
            Self::Integers(rows) => rows.len(),
        }
    }
}

/// Elements of a piece: at least a few microseconds of work.
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
pub fn zeros<E>(shape: VectorShape, control: &JobControl) -> Result<Rows<E>>
where
    E: Copy + Default + Zeroize,
{
    let length = shape.length() as usize;
    rows_of(shape.rows() as usize, length, |_, out| long_rows::pad(out, length, control))
}

/// The rows with zeros after them, up to `length` elements.
///
/// Errors: those of `control`.
pub fn padded<E>(rows: &[Vec<E>], length: usize, control: &JobControl) -> Result<Rows<E>>
where
    E: Copy + Default + Zeroize,
{
    rows_of(rows.len(), length, |row, out| {
        long_rows::append(out, &rows[row], control)?;
        long_rows::pad(out, length, control)
    })
}

/// `count` rows, which `fill` makes from empty ones with room for `length` elements.
pub fn rows_of<E: Zeroize>(
    count: usize,
    length: usize,
    mut fill: impl FnMut(usize, &mut Vec<E>) -> Result<()>,
) -> Result<Rows<E>> {
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
pub fn for_each_piece<E: Send>(
    rows: &mut [Vec<E>],
    control: &JobControl,
    visit: impl Fn(RowPiece, &mut [E]) + Sync,
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
