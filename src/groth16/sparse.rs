//! Sparse matrices over Fr, row by row. Coefficients are stored once: most of them are equal.

use std::{collections::HashMap, ops::Range};

use ark_ff::{AdditiveGroup, One};
use rayon::prelude::*;
use zeroize::Zeroizing;

use crate::client::Fr;

/// Terms that one task multiplies: tens of microseconds of work.
const TASK_TERMS: usize = 2048;
/// Indices of the coefficients 1 and -1, which need no product.
const ONE: u32 = 0;
const MINUS_ONE: u32 = 1;

/// A matrix, most of whose elements are 0.
#[derive(Debug, Clone, PartialEq)]
pub struct SparseMatrix {
    columns: usize,
    /// The different coefficients, of which the first are 1 and -1.
    coefficients: Vec<Fr>,
    /// For each row, the index after its last term.
    row_ends: Vec<u32>,
    /// The terms of all rows, one row after another.
    terms: Vec<SparseTerm>,
}

/// A coefficient of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
struct SparseTerm {
    column: u32,
    /// The index of the coefficient.
    coefficient: u32,
}

/// Why a row is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SparseProblem {
    NoSuchColumn { row: usize, column: usize },
    TooManyTerms,
}

/// Adds rows to a matrix.
pub struct SparseBuilder {
    matrix: SparseMatrix,
    indices: HashMap<Fr, u32>,
}

impl SparseBuilder {
    /// A builder of a matrix without rows. Reserves memory for `rows` rows.
    pub fn new(rows: usize, columns: usize) -> Self {
        let coefficients = vec![Fr::one(), -Fr::one()];
        let indices = HashMap::from([(coefficients[0], ONE), (coefficients[1], MINUS_ONE)]);
        let row_ends = Vec::with_capacity(rows);
        let matrix = SparseMatrix { columns, coefficients, row_ends, terms: Vec::new() };
        Self { matrix, indices }
    }

    /// Adds a row of coefficients and their columns, of which several may be equal.
    pub fn push_row(
        &mut self,
        row: impl IntoIterator<Item = (Fr, usize)>,
    ) -> Result<(), SparseProblem> {
        let matrix = &mut self.matrix;
        for (coefficient, column) in row {
            if column >= matrix.columns {
                return Err(SparseProblem::NoSuchColumn { row: matrix.rows(), column });
            }
            let column = u32::try_from(column).map_err(|_| SparseProblem::TooManyTerms)?;
            let next = matrix.coefficients.len() as u32;
            let index = *self.indices.entry(coefficient).or_insert(next);
            if index == next {
                matrix.coefficients.push(coefficient);
            }
            matrix.terms.push(SparseTerm { column, coefficient: index });
        }
        let end = u32::try_from(matrix.terms.len()).map_err(|_| SparseProblem::TooManyTerms)?;
        matrix.row_ends.push(end);
        Ok(())
    }

    /// The matrix of all rows.
    pub fn build(self) -> SparseMatrix {
        self.matrix
    }
}

impl SparseMatrix {
    pub fn rows(&self) -> usize {
        self.row_ends.len()
    }

    /// The number of terms of all rows.
    pub fn terms(&self) -> usize {
        self.terms.len()
    }

    /// The coefficients of a row, and their columns.
    pub fn row(&self, row: usize) -> impl Iterator<Item = (Fr, usize)> {
        let terms = self.terms[self.terms_of(row..row + 1)].iter();
        terms.map(|term| (self.coefficients[term.coefficient as usize], term.column as usize))
    }

    /// The product of a row and a vector with one element per column.
    pub fn multiply_row(&self, row: usize, vector: &[Fr]) -> Fr {
        self.sum(self.terms_of(row..row + 1), vector)
    }

    /// The product of the matrix and a vector with one element per column. Runs in parallel on the
    /// current rayon pool: tasks have similar numbers of terms, however long rows are.
    pub fn multiply(&self, vector: &[Fr]) -> Zeroizing<Vec<Fr>> {
        let mut product = Zeroizing::new(vec![Fr::ZERO; self.rows()]);
        self.multiply_rows(0..self.rows(), vector, &mut product);
        product
    }

    /// `product` has one element per row of `rows`.
    fn multiply_rows(&self, rows: Range<usize>, vector: &[Fr], product: &mut [Fr]) {
        let terms = self.terms_of(rows.clone());
        if rows.len() == 1 {
            product[0] = self.sum_in_parallel(terms, vector);
        } else if terms.len() <= TASK_TERMS && rows.len() <= TASK_TERMS {
            for (row, product) in rows.zip(product) {
                *product = self.multiply_row(row, vector);
            }
        } else {
            // Half of the terms are before the middle, unless one row has more than half.
            let half = (terms.start + terms.len() / 2) as u32;
            let ends = &self.row_ends[rows.clone()];
            let middle = match terms.len() > TASK_TERMS {
                true => ends.partition_point(|end| *end <= half),
                false => rows.len() / 2,
            };
            let middle = middle.clamp(1, rows.len() - 1);
            let (first, last) = product.split_at_mut(middle);
            let middle = rows.start + middle;
            rayon::join(
                || self.multiply_rows(rows.start..middle, vector, first),
                || self.multiply_rows(middle..rows.end, vector, last),
            );
        }
    }

    fn terms_of(&self, rows: Range<usize>) -> Range<usize> {
        let start = rows.start.checked_sub(1).map_or(0, |before| self.row_ends[before]);
        let end = rows.end.checked_sub(1).map_or(0, |last| self.row_ends[last]);
        start as usize..end as usize
    }

    fn sum(&self, terms: Range<usize>, vector: &[Fr]) -> Fr {
        self.terms[terms].iter().fold(Fr::ZERO, |sum, term| {
            let value = vector[term.column as usize];
            match term.coefficient {
                ONE => sum + value,
                MINUS_ONE => sum - value,
                index => sum + value * self.coefficients[index as usize],
            }
        })
    }

    fn sum_in_parallel(&self, terms: Range<usize>, vector: &[Fr]) -> Fr {
        let starts = terms.clone().into_par_iter().step_by(TASK_TERMS);
        let sums = starts.map(|at| self.sum(at..terms.end.min(at + TASK_TERMS), vector));
        sums.reduce(|| Fr::ZERO, |a, b| a + b)
    }
}

#[cfg(test)]
mod tests {
    use ark_ff::UniformRand;
    use ark_std::rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;

    fn matrix(columns: usize, rows: &[Vec<(Fr, usize)>]) -> SparseMatrix {
        let mut builder = SparseBuilder::new(rows.len(), columns);
        rows.iter().for_each(|row| builder.push_row(row.iter().copied()).unwrap());
        builder.build()
    }

    #[test]
    fn products_are_those_of_single_rows_whatever_their_lengths() {
        let mut random = StdRng::seed_from_u64(1);
        let columns = 1000;
        let vector: Vec<_> = (0..columns).map(|_| Fr::rand(&mut random)).collect();
        let frequent = [Fr::one(), -Fr::one(), Fr::from(2), Fr::ZERO];
        let lengths: [&[usize]; 7] = [
            &[],
            &[0],
            &[3 * TASK_TERMS + 1],
            &[1, 0, 2, 3 * TASK_TERMS, 0, 0, 1],
            &[0; 2 * TASK_TERMS + 1],
            &[2; 3 * TASK_TERMS],
            &[5 * TASK_TERMS, 1, 1, 0],
        ];
        for lengths in lengths {
            let mut term = || {
                let coefficient = match random.gen_range(0..6) {
                    index @ 0..4 => frequent[index],
                    _ => Fr::rand(&mut random),
                };
                (coefficient, random.gen_range(0..columns))
            };
            let rows: Vec<Vec<_>> =
                lengths.iter().map(|len| (0..*len).map(|_| term()).collect()).collect();
            let expected: Vec<Fr> = rows
                .iter()
                .map(|row| row.iter().map(|(coefficient, at)| vector[*at] * coefficient).sum())
                .collect();
            let matrix = matrix(columns, &rows);
            assert_eq!(*matrix.multiply(&vector), expected);
            for (index, row) in rows.iter().enumerate() {
                assert!(matrix.row(index).eq(row.iter().copied()));
                assert_eq!(matrix.multiply_row(index, &vector), expected[index]);
            }
        }
    }

    #[test]
    fn equal_coefficients_are_stored_once() {
        let row: Vec<_> = (0..90).map(|index| (Fr::from(index as u64 % 3), index)).collect();
        let matrix = matrix(90, &[row.clone(), row]);
        assert_eq!(matrix.coefficients, [Fr::one(), -Fr::one(), Fr::ZERO, Fr::from(2)]);
    }

    #[test]
    fn columns_that_do_not_exist_are_refused() {
        let mut builder = SparseBuilder::new(2, 3);
        builder.push_row([(Fr::one(), 2)]).unwrap();
        let refused = builder.push_row([(Fr::one(), 0), (Fr::one(), 3)]);
        assert_eq!(refused, Err(SparseProblem::NoSuchColumn { row: 1, column: 3 }));
    }
}
