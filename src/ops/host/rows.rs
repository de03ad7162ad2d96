//! Loops over rows, in pieces on the current rayon pool.

use ark_ff::AdditiveGroup;
use rayon::prelude::*;
use zeroize::Zeroizing;

use crate::{curve::Fr, program::VectorShape};

/// The rows of a vector. They are wiped when dropped; to make one longer would leave a copy behind.
pub type HostRows = Zeroizing<Vec<Vec<Fr>>>;

/// Elements of a piece: at least ten microseconds of work.
const PIECE_ELEMENTS: usize = 4096;

/// Where a piece is.
#[derive(Debug, Clone, Copy)]
pub struct RowPiece {
    pub row: usize,
    /// Index of the piece's first element.
    pub first: usize,
}

/// Rows of zeros.
pub fn zeros(shape: VectorShape) -> HostRows {
    Zeroizing::new(vec![vec![Fr::ZERO; shape.length() as usize]; shape.rows() as usize])
}

/// The rows with zeros after them, up to `length` elements.
pub fn padded(rows: &[Vec<Fr>], length: usize) -> HostRows {
    let mut out = Zeroizing::new(vec![vec![Fr::ZERO; length]; rows.len()]);
    for (out, row) in out.iter_mut().zip(rows) {
        out[..row.len()].copy_from_slice(row);
    }
    out
}

/// Calls `visit` with each piece of the rows.
pub fn for_each_piece(rows: &mut [Vec<Fr>], visit: impl Fn(RowPiece, &mut [Fr]) + Sync) {
    rows.par_iter_mut().enumerate().for_each(|(row, elements)| {
        let pieces = elements.par_chunks_mut(PIECE_ELEMENTS).enumerate();
        pieces.for_each(|(piece, elements)| {
            visit(RowPiece { row, first: piece * PIECE_ELEMENTS }, elements);
        });
    });
}
