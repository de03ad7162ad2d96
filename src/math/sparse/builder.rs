//! Builds a matrix row by row.

use std::{collections::HashMap, sync::Arc};

use ark_ff::One;

use super::{
    matrix::{SparseMatrix, SparseTerm},
    shape::{MINUS_ONE, ONE, SparseShape, UNIT_COEFFICIENTS},
};
use crate::curve::{Fr, layout};

/// Why a row is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SparseProblem {
    /// A term's column is not below the number of columns.
    #[error("row {row}: there is no column {column}")]
    NoSuchColumn {
        /// The index of the row.
        row: usize,
        /// The column.
        column: usize,
    },
    /// Terms, rows or columns cannot be numbered with 32 bits.
    #[error("too many terms, rows or columns: at most 2^32 - 1 of each")]
    TooManyTerms,
}

/// Adds rows to a matrix. Each coefficient is stored once: most of them are equal.
pub struct SparseBuilder {
    columns: usize,
    coefficients: Vec<Fr>,
    indices: HashMap<Fr, u32>,
    terms: Vec<SparseTerm>,
    row_ends: Vec<u32>,
}

impl SparseBuilder {
    /// A builder of a matrix without rows. Reserves memory for `rows` rows.
    pub fn new(rows: usize, columns: usize) -> Self {
        let indices = HashMap::from([(Fr::one(), ONE), (-Fr::one(), MINUS_ONE)]);
        let row_ends = Vec::with_capacity(rows);
        Self { columns, coefficients: Vec::new(), indices, terms: Vec::new(), row_ends }
    }

    /// Adds a row of coefficients and their columns, of which several may be equal.
    ///
    /// Errors: `NoSuchColumn`; `TooManyTerms`. The row is then not added.
    pub fn push_row(
        &mut self,
        row: impl IntoIterator<Item = (Fr, usize)>,
    ) -> Result<(), SparseProblem> {
        let before = self.terms.len();
        self.push_terms(row).inspect_err(|_| self.terms.truncate(before))
    }

    fn push_terms(
        &mut self,
        row: impl IntoIterator<Item = (Fr, usize)>,
    ) -> Result<(), SparseProblem> {
        for (coefficient, column) in row {
            if column >= self.columns {
                return Err(SparseProblem::NoSuchColumn { row: self.row_ends.len(), column });
            }
            let column = u32::try_from(column).map_err(|_| SparseProblem::TooManyTerms)?;
            let next = self.coefficients.len() as u32 + UNIT_COEFFICIENTS;
            let index = *self.indices.entry(coefficient).or_insert(next);
            if index == next {
                self.coefficients.push(coefficient);
            }
            self.terms.push(SparseTerm { column, coefficient: index });
        }
        let too_many = |_| SparseProblem::TooManyTerms;
        self.row_ends.push(u32::try_from(self.terms.len()).map_err(too_many)?);
        Ok(())
    }

    /// The matrix of all rows.
    ///
    /// Errors: `TooManyTerms` for more than 2^32 - 1 rows or columns.
    pub fn build(self) -> Result<SparseMatrix, SparseProblem> {
        let Self { columns, coefficients, terms, row_ends, .. } = self;
        let count = |count: usize| u32::try_from(count).map_err(|_| SparseProblem::TooManyTerms);
        let shape = SparseShape {
            rows: count(row_ends.len())?,
            columns: count(columns)?,
            terms: count(terms.len())?,
            coefficients: count(coefficients.len())?,
        };
        let mut limbs = vec![0_u64; shape.bytes().div_ceil(8) as usize];
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut limbs);
        bytes[shape.coefficient_bytes()].copy_from_slice(layout::fr_as_bytes(&coefficients));
        bytes[shape.term_bytes()].copy_from_slice(bytemuck::cast_slice(&terms));
        bytes[shape.row_bytes()].copy_from_slice(bytemuck::cast_slice(&row_ends));
        Ok(SparseMatrix::unchecked(shape, Arc::new(limbs)).expect("the bytes of this shape"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sparse::check;

    #[test]
    fn equal_coefficients_are_stored_once() {
        let row: Vec<_> = (0..90).map(|index| (Fr::from(index as u64 % 3), index)).collect();
        let mut builder = SparseBuilder::new(2, 90);
        builder.push_row(row.iter().copied()).unwrap();
        builder.push_row([(-Fr::one(), 5)]).unwrap();
        let matrix = builder.build().unwrap();
        assert_eq!(matrix.coefficients(), [Fr::from(0), Fr::from(2)]);
        assert_eq!(matrix.row_ends(), [90, 91]);
        assert!(matrix.row(0).eq(row));
        assert!(matrix.row(1).eq([(-Fr::one(), 5)]));
        check(&matrix).unwrap();
    }

    #[test]
    fn columns_that_do_not_exist_are_refused() {
        let mut builder = SparseBuilder::new(2, 3);
        builder.push_row([(Fr::one(), 2)]).unwrap();
        let refused = builder.push_row([(Fr::one(), 0), (Fr::one(), 3)]);
        assert_eq!(refused, Err(SparseProblem::NoSuchColumn { row: 1, column: 3 }));
        builder.push_row([(Fr::one(), 1)]).unwrap();
        let matrix = builder.build().unwrap();
        assert!(matrix.row(1).eq([(Fr::one(), 1)]), "only the row that was added");
    }
}
