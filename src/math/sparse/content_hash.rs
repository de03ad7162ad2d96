//! The content hash that names a matrix.

use super::{matrix::SparseMatrix, shape::SparseShape};
use crate::hash;

/// A hasher for the content hash of a matrix, which has hashed the shape: the numbers of rows,
/// columns, terms and coefficients as 64-bit little-endian integers. The bytes of the matrix
/// follow.
pub fn content_hasher(shape: SparseShape) -> blake3::Hasher {
    let SparseShape { rows, columns, terms, coefficients } = shape;
    let mut hasher = blake3::Hasher::new_derive_key("capstan v1 matrix");
    for number in [rows, columns, terms, coefficients] {
        hasher.update(&u64::from(number).to_le_bytes());
    }
    hasher
}

/// The content hash of a matrix: BLAKE3 over its shape and its bytes, with a derived key. With the
/// feature `parallel` (in `capstan`, with `server`) it runs in parallel on the current rayon pool.
pub fn content_hash(matrix: &SparseMatrix) -> [u8; 32] {
    let mut hasher = content_hasher(matrix.shape());
    hash::update(&mut hasher, matrix.as_bytes());
    hasher.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{curve::Fr, sparse::SparseBuilder};

    #[test]
    fn matrices_with_the_same_bytes_and_another_shape_have_other_ids() {
        let id = |columns| {
            let mut builder = SparseBuilder::new(1, columns);
            builder.push_row([(Fr::from(3), 1)]).unwrap();
            content_hash(&builder.build().unwrap())
        };
        assert_eq!(id(2), id(2));
        assert_ne!(id(2), id(3));
    }
}
