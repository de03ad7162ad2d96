//! Packed bits.

use super::{super::matrix::BitMatrix, error::MatrixFileError};

pub const MAGIC: &[u8; 8] = b"GF2BITS1";
const HEADER_BYTES: usize = 24;

/// Reads a file, which begins with [`MAGIC`]. Allocates as many bytes as the file has.
pub fn parse(file: &[u8]) -> Result<BitMatrix, MatrixFileError> {
    let number = |at: usize| {
        let bytes = file.get(at..at + 8).ok_or(MatrixFileError::Header { bytes: file.len() })?;
        Ok::<_, MatrixFileError>(u64::from_le_bytes(bytes.try_into().expect("8 bytes")))
    };
    let (rows, columns) = (number(8)?, number(16)?);
    let row_bytes = columns.div_ceil(64).saturating_mul(8);
    let body = &file[HEADER_BYTES..];
    let got = file.len() as u64;
    let expected = rows.saturating_mul(row_bytes).saturating_add(HEADER_BYTES as u64);
    if expected != got {
        return Err(MatrixFileError::FileLength { expected, got });
    }
    let words = body.chunks_exact(8);
    let words = words.map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes"))).collect();
    Ok(BitMatrix::from_words(rows, columns, words)?)
}

pub fn write(matrix: &BitMatrix) -> Vec<u8> {
    let mut file = Vec::with_capacity(HEADER_BYTES + 8 * matrix.words().len());
    file.extend_from_slice(MAGIC);
    for number in [matrix.rows(), matrix.columns()] {
        file.extend_from_slice(&(number as u64).to_le_bytes());
    }
    file.extend(matrix.words().iter().flat_map(|word| word.to_le_bytes()));
    file
}
