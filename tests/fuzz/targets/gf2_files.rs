//! Files of matrices of bits.

use capstan::gf2::{
    BitMatrix,
    files::{FileLayout, MatrixFile},
};

use super::assert_harmless;
use crate::driver::{MemoryBound, Target};

/// A line of two bytes is a row of 8 bytes of bounds and, as a matrix, of all columns: matrices are
/// made only if they are small.
const MEMORY: MemoryBound = MemoryBound { per_byte: 64, always: 1 << 20 };
const WORDS_MAX: u64 = 1 << 12;

fn matrix(bytes: &[u8]) -> Option<(BitMatrix, FileLayout, Vec<u8>)> {
    let file = match MatrixFile::parse(bytes) {
        Ok(file) => file,
        Err(error) => {
            assert_harmless(&error);
            return None;
        }
    };
    let (layout, write) = (FileLayout::of(&file), file.writer());
    let rows = bytes.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
    if layout.columns.div_ceil(64) * rows > WORDS_MAX {
        return None;
    }
    match file.into_matrix(layout) {
        Ok(matrix) => {
            let written = write(&matrix, layout.order);
            Some((matrix, layout, written))
        }
        Err(error) => {
            assert_harmless(&error);
            None
        }
    }
}

/// A matrix that was read is written as a file that is read as the same matrix.
fn check(input: &[u8]) {
    let Some((read, layout, written)) = matrix(input) else { return };
    let (again, again_layout, _) = matrix(&written).expect("a written file");
    assert_eq!(again, read);
    assert_eq!(again_layout, layout);
}

#[test]
fn matrices_of_bits() {
    let mut packed = b"GF2BITS1".to_vec();
    for number in [2_u64, 65, 1, 1, 2, 0] {
        packed.extend(number.to_le_bytes());
    }
    let seeds = vec![b"129 5 0\r\n\n7\t6 \n".to_vec(), b"0 3 64\n1 2\n".to_vec(), packed];
    let words = &["GF2BITS1", " ", "\n", "\r\n", "1048575", "1048576", "0"];
    let name = "matrices_of_bits";
    Target { name, seeds, words, check, cases: 10_000, memory: MEMORY }.run();
}
