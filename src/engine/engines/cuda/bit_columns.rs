//! Some columns of a matrix of bits in the host's memory: whole words of each row, one row after
//! another.

use std::ops::Range;

use parking_lot::Mutex;

use crate::{
    buffer::{ByteSink, ByteSource},
    error::Result,
    gf2::BitMatrix,
};

/// Bytes to write under one lock, and the most rows: threads copy pieces of this size.
const LOCKED_BYTES: usize = 256 << 10;
const LOCKED_ROWS_MAX: usize = 1 << 10;
const WORD: usize = size_of::<u64>();

/// Words to read.
pub struct BitColumns<'a> {
    pub matrix: &'a BitMatrix,
    /// The words of each row.
    pub words: Range<usize>,
}

/// Words to write.
pub struct BitColumnsMut<'a> {
    /// Groups of `locked_rows` rows.
    rows: Vec<Mutex<&'a mut [u64]>>,
    locked_rows: usize,
    row_words: usize,
    words: Range<usize>,
}

/// Adjacent words of one row.
struct RowPart {
    row: usize,
    /// The first word, numbered within the row.
    first: usize,
    /// Where the words lie among the bytes of the caller.
    bytes: Range<usize>,
}

/// The parts of rows that `len` bytes consist of, from byte number `start` of the columns on.
/// Copies are of whole words.
fn parts(words: &Range<usize>, start: u64, len: usize) -> impl Iterator<Item = RowPart> {
    debug_assert!(start.is_multiple_of(WORD as u64) && len.is_multiple_of(WORD));
    let words = words.clone();
    let mut next = 0;
    std::iter::from_fn(move || {
        let at = start as usize / WORD + next / WORD;
        let row = at / words.len();
        let within = at % words.len();
        let bytes = next..len.min(next + (words.len() - within) * WORD);
        next = bytes.end;
        (!bytes.is_empty()).then_some(RowPart { row, first: words.start + within, bytes })
    })
}

impl ByteSource for BitColumns<'_> {
    fn read(&self, start: u64, out: &mut [u8]) {
        for RowPart { row, first, bytes } in parts(&self.words, start, out.len()) {
            let out = out[bytes].chunks_exact_mut(WORD);
            let words = &self.matrix.row(row)[first..];
            out.zip(words).for_each(|(out, word)| out.copy_from_slice(&word.to_le_bytes()));
        }
    }

    fn is_intact(&self) -> bool {
        true
    }
}

impl<'a> BitColumnsMut<'a> {
    pub fn new(matrix: &'a mut BitMatrix, words: Range<usize>) -> Self {
        let row_words = matrix.row_words();
        let locked_rows = (LOCKED_BYTES / (WORD * words.len())).clamp(1, LOCKED_ROWS_MAX);
        let rows = matrix.words_mut().chunks_mut(locked_rows * row_words).map(Mutex::new).collect();
        Self { rows, locked_rows, row_words, words }
    }

    fn for_each_part(
        &self,
        start: u64,
        len: usize,
        mut visit: impl FnMut(&mut [u64], Range<usize>),
    ) {
        for RowPart { row, first, bytes } in parts(&self.words, start, len) {
            let mut rows = self.rows[row / self.locked_rows].lock();
            let first = row % self.locked_rows * self.row_words + first;
            visit(&mut rows[first..first + bytes.len() / WORD], bytes);
        }
    }
}

impl ByteSource for BitColumnsMut<'_> {
    fn read(&self, start: u64, out: &mut [u8]) {
        self.for_each_part(start, out.len(), |words, bytes| {
            let out = out[bytes].chunks_exact_mut(WORD);
            out.zip(words).for_each(|(out, word)| out.copy_from_slice(&word.to_le_bytes()));
        });
    }

    fn is_intact(&self) -> bool {
        true
    }
}

impl ByteSink for BitColumnsMut<'_> {
    fn write(&self, start: u64, bytes: &[u8]) -> Result<()> {
        self.for_each_part(start, bytes.len(), |words, part| {
            let (from, _) = bytes[part].as_chunks();
            words.iter_mut().zip(from).for_each(|(word, from)| *word = u64::from_le_bytes(*from));
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_columns_do_not_change() {
        let rows = 2 * LOCKED_ROWS_MAX + 3;
        let row_words = 5;
        let words: Vec<u64> = (0..(rows * row_words) as u64).collect();
        let mut matrix =
            BitMatrix::from_words(rows as u64, 64 * row_words as u64, words.clone()).unwrap();
        let of_columns = |range: Range<usize>| -> Vec<u8> {
            let rows = words.chunks(row_words).flat_map(|row| row[range.clone()].to_vec());
            rows.flat_map(u64::to_le_bytes).collect()
        };
        for range in [0..5, 1..4, 4..5] {
            let expected = of_columns(range.clone());
            let columns = BitColumns { matrix: &matrix, words: range.clone() };
            let mut read = vec![0; expected.len()];
            // Pieces that begin and end within rows.
            for (at, piece) in read.chunks_mut(7 * WORD).enumerate() {
                columns.read((at * 7 * WORD) as u64, piece);
            }
            assert_eq!(read, expected);
            let columns = BitColumnsMut::new(&mut matrix, range);
            for (at, piece) in expected.chunks(7 * WORD).enumerate() {
                let inverted: Vec<u8> = piece.iter().map(|byte| !byte).collect();
                columns.write((at * 7 * WORD) as u64, &inverted).unwrap();
            }
            columns.read(0, &mut read);
            assert!(read.iter().zip(&expected).all(|(read, byte)| *read == !byte));
            for (at, piece) in expected.chunks(7 * WORD).enumerate() {
                columns.write((at * 7 * WORD) as u64, piece).unwrap();
            }
            assert!(matrix.words() == words, "other columns have changed");
        }
    }
}
