//! Rows in strips of 512 columns: the lines of all rows in one strip lie next to each other.

use rayon::prelude::*;
use zeroize::Zeroizing;

use super::{
    line::{LINE_WORDS, Line},
    matrix::BitMatrix,
};

/// A matrix: for each strip, the lines of all rows. They are wiped when dropped.
pub struct Strips(pub Vec<Zeroizing<Vec<Line>>>);

impl Strips {
    /// Runs in parallel on the current rayon pool.
    pub fn new(matrix: &BitMatrix) -> Self {
        let strips = matrix.row_words().div_ceil(LINE_WORDS);
        let strip =
            |at| Zeroizing::new((0..matrix.rows()).map(|row| line(matrix, row, at)).collect());
        Self((0..strips).into_par_iter().map(strip).collect())
    }

    /// Copies rows back: `order(i)` is the row that becomes row i of `matrix`; `None` makes it
    /// zero. Runs in parallel on the current rayon pool.
    pub fn write(&self, matrix: &mut BitMatrix, order: impl Fn(usize) -> Option<usize> + Sync) {
        let row_words = matrix.row_words();
        if row_words == 0 {
            return;
        }
        let rows = matrix.words_mut().par_chunks_exact_mut(row_words).enumerate();
        rows.for_each(|(at, words)| match order(at) {
            None => words.fill(0),
            Some(row) => {
                for (words, strip) in words.chunks_mut(LINE_WORDS).zip(&self.0) {
                    words.copy_from_slice(&strip[row].0[..words.len()]);
                }
            }
        });
    }
}

/// The bits of a row in a strip.
pub fn line(matrix: &BitMatrix, row: usize, strip: usize) -> Line {
    let words = &matrix.row(row)[strip * LINE_WORDS..];
    Line::from_words(&words[..words.len().min(LINE_WORDS)])
}
