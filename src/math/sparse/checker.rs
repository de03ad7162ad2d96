//! Checks of a matrix whose bytes arrive piece by piece.

use std::ops::Range;

use super::{
    check::{check_coefficients, check_row_ends, check_terms},
    matrix::{BadMatrix, SparseTerm},
    shape::SparseShape,
};
use crate::{
    curve::{Fr, layout},
    error::FieldProblem,
};

/// Checks the bytes of a matrix in order, like [`super::check`].
pub struct MatrixChecker {
    shape: SparseShape,
    piece_bytes: u64,
    /// The number of bytes that were checked.
    checked: u64,
    /// The end of the last row that was checked.
    last_end: u32,
}

impl MatrixChecker {
    /// A checker of pieces of at most `piece_bytes` bytes, rounded to whole elements.
    ///
    /// Shape: at least one row.
    pub fn new(shape: SparseShape, piece_bytes: u64) -> Self {
        let longest = size_of::<Fr>() as u64;
        let piece_bytes = (piece_bytes / longest).max(1) * longest;
        Self { shape, piece_bytes, checked: 0, last_end: 0 }
    }

    /// The bytes to check next. They belong to one part of the matrix. Empty after the last ones.
    pub fn next_piece(&self) -> Range<u64> {
        let all = self.shape.bytes();
        let mut ends = [self.shape.terms_start(), self.shape.rows_start(), all].into_iter();
        let part_end = ends.find(|end| *end > self.checked).unwrap_or(all);
        self.checked..part_end.min(self.checked + self.piece_bytes)
    }

    /// Checks the bytes of the next piece, which are aligned to 8 bytes. Runs in parallel on the
    /// current rayon pool.
    ///
    /// Errors: the first element that is wrong; `Length` if `bytes` are not the next piece.
    pub fn check_next(&mut self, bytes: &[u8]) -> Result<(), BadMatrix> {
        let piece = self.next_piece();
        let expected = piece.end - piece.start;
        if bytes.len() as u64 != expected {
            let problem = FieldProblem::Length { expected, got: bytes.len() as u64 };
            return Err(BadMatrix { part: "matrix", index: None, problem });
        }
        let (terms_start, rows_start) = (self.shape.terms_start(), self.shape.rows_start());
        if piece.start < terms_start {
            let coefficients = layout::fr_from_bytes(bytes).expect("aligned, and whole elements");
            check_coefficients(coefficients, piece.start / size_of::<Fr>() as u64)?;
        } else if piece.start < rows_start {
            let first = (piece.start - terms_start) / size_of::<SparseTerm>() as u64;
            check_terms(self.shape, bytemuck::cast_slice(bytes), first)?;
        } else {
            let ends: &[u32] = bytemuck::cast_slice(bytes);
            let first = (piece.start - rows_start) / size_of::<u32>() as u64;
            check_row_ends(self.shape, ends, first, self.last_end)?;
            self.last_end = ends.last().copied().unwrap_or(self.last_end);
        }
        self.checked = piece.end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::sparse::{SparseBuilder, SparseMatrix, check};

    /// Ten rows of up to four terms.
    fn matrix() -> SparseMatrix {
        let mut builder = SparseBuilder::new(10, 7);
        for row in 0..10_u64 {
            let terms = 0..row % 5;
            let terms = terms.map(|at| (Fr::from(row * at + 2), (row + at) as usize % 7));
            builder.push_row(terms).unwrap();
        }
        builder.build().unwrap()
    }

    fn check_pieces(matrix: &SparseMatrix, piece_bytes: u64) -> Result<(), BadMatrix> {
        let mut checker = MatrixChecker::new(matrix.shape(), piece_bytes);
        loop {
            let piece = checker.next_piece();
            if piece.is_empty() {
                return Ok(());
            }
            let bytes = &matrix.as_bytes()[piece.start as usize..piece.end as usize];
            let mut limbs = vec![0_u64; bytes.len().div_ceil(8)];
            let aligned = &mut bytemuck::cast_slice_mut(&mut limbs)[..bytes.len()];
            aligned.copy_from_slice(bytes);
            checker.check_next(aligned)?;
        }
    }

    #[test]
    fn pieces_have_the_answer_of_the_whole() {
        let good = matrix();
        for piece_bytes in [1, 32, 64, 96, 1 << 20] {
            assert_eq!(check_pieces(&good, piece_bytes), Ok(()));
            // Changes of every byte: most are refused, wherever they are.
            for at in 0..good.as_bytes().len() {
                let mut limbs = vec![0_u64; good.as_bytes().len().div_ceil(8)];
                let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut limbs);
                bytes[..good.as_bytes().len()].copy_from_slice(good.as_bytes());
                bytes[at] ^= 0xff;
                let changed = SparseMatrix::unchecked(good.shape(), Arc::new(limbs)).unwrap();
                assert_eq!(check_pieces(&changed, piece_bytes), check(&changed), "byte {at}");
            }
        }
    }

    #[test]
    fn bytes_of_another_piece_are_refused() {
        let mut checker = MatrixChecker::new(matrix().shape(), 32);
        let refused = checker.check_next(&[0; 8]).unwrap_err();
        assert_eq!(refused.problem, FieldProblem::Length { expected: 32, got: 8 });
    }
}
