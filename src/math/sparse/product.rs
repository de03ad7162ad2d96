//! Products of a matrix and a vector on the host.

use std::ops::Range;

use ark_ff::AdditiveGroup;
use rayon::prelude::*;

use super::{
    matrix::{SparseMatrix, SparseTerm},
    shape::{MINUS_ONE, ONE, UNIT_COEFFICIENTS},
};
use crate::curve::Fr;

/// Terms that one task multiplies: tens of microseconds of work.
const TASK_TERMS: usize = 2048;

impl SparseMatrix {
    /// The product of a row and a vector with one element per column.
    #[inline]
    pub fn multiply_row(&self, row: usize, vector: &[Fr]) -> Fr {
        self.factors(vector).sum(self.terms_of(row..row + 1))
    }

    /// Writes the product of the matrix and a vector. `vector` has one element per column,
    /// `product` one per row. Runs in parallel on the current rayon pool: tasks have similar
    /// numbers of terms, however long rows are.
    pub fn multiply(&self, vector: &[Fr], product: &mut [Fr]) {
        self.multiply_rows(0..self.rows(), vector, product);
    }

    /// Multiplies adjacent rows only: `product` has one element for each of them.
    fn multiply_rows(&self, rows: Range<usize>, vector: &[Fr], product: &mut [Fr]) {
        if !rows.is_empty() {
            self.factors(vector).multiply(rows, product);
        }
    }

    /// Splits the matrix into pieces with at most `terms` terms and at most `terms` rows: whole
    /// rows, unless a row has more terms.
    pub fn pieces(&self, terms: usize) -> MatrixPieces<'_> {
        MatrixPieces { matrix: self, terms_max: terms.max(1), row: 0, term: 0 }
    }

    /// Writes the product of a piece and a vector to `product`, which has one element for each row
    /// of the matrix. Parts of a row are added up: its element is zero before the first one.
    pub fn add_piece(&self, piece: MatrixPiece, vector: &[Fr], product: &mut [Fr]) {
        match piece {
            MatrixPiece::Rows(rows) => {
                self.multiply_rows(rows.clone(), vector, &mut product[rows]);
            }
            MatrixPiece::PartOfRow { row, terms } => {
                product[row] += self.factors(vector).sum_in_parallel(terms);
            }
        }
    }

    /// The end of the longest run of rows from `start` on with at most `terms` terms and at most
    /// `terms` rows.
    fn rows_end(&self, start: usize, terms: usize) -> usize {
        let first = self.terms_of(0..start).end;
        let rest = &self.row_ends()[start..];
        let rest = &rest[..rest.len().min(terms)];
        start + rest.partition_point(|end| *end as usize - first <= terms)
    }

    fn factors<'a>(&'a self, vector: &'a [Fr]) -> SparseFactors<'a> {
        let (coefficients, terms, row_ends) = (self.coefficients(), self.terms(), self.row_ends());
        SparseFactors { coefficients, terms, row_ends, vector }
    }
}

/// A part of a matrix that is multiplied without a pause.
#[derive(Debug)]
pub enum MatrixPiece {
    Rows(Range<usize>),
    /// Some terms of a long row.
    PartOfRow {
        row: usize,
        terms: Range<usize>,
    },
}

/// The pieces of a matrix, in the order of its terms.
pub struct MatrixPieces<'a> {
    matrix: &'a SparseMatrix,
    terms_max: usize,
    /// The row of the next piece.
    row: usize,
    /// The next piece's first term, if it is not the first one of its row.
    term: usize,
}

impl Iterator for MatrixPieces<'_> {
    type Item = MatrixPiece;

    fn next(&mut self) -> Option<MatrixPiece> {
        let row = self.row;
        if row == self.matrix.rows() {
            return None;
        }
        let all = self.matrix.terms_of(row..row + 1);
        if all.len() <= self.terms_max {
            self.row = self.matrix.rows_end(row, self.terms_max);
            return Some(MatrixPiece::Rows(row..self.row));
        }
        let start = all.start.max(self.term);
        self.term = all.end.min(start + self.terms_max);
        if self.term == all.end {
            self.row += 1;
        }
        Some(MatrixPiece::PartOfRow { row, terms: start..self.term })
    }
}

/// A matrix and a vector to multiply.
struct SparseFactors<'a> {
    coefficients: &'a [Fr],
    terms: &'a [SparseTerm],
    row_ends: &'a [u32],
    vector: &'a [Fr],
}

impl SparseFactors<'_> {
    /// `product` has one element per row of `rows`, which are not empty.
    fn multiply(&self, rows: Range<usize>, product: &mut [Fr]) {
        let start = self.start(rows.start);
        let ends = &self.row_ends[rows.clone()];
        let terms = start..ends[ends.len() - 1] as usize;
        if ends.len() == 1 {
            product[0] = self.sum_in_parallel(terms);
        } else if terms.len() <= TASK_TERMS && ends.len() <= TASK_TERMS {
            let mut start = start;
            for (end, product) in ends.iter().zip(product) {
                *product = self.sum(start..*end as usize);
                start = *end as usize;
            }
        } else {
            // Half of the terms are before the middle, unless one row has more than half.
            let half = (terms.start + terms.len() / 2) as u32;
            let middle = match terms.len() > TASK_TERMS {
                true => ends.partition_point(|end| *end <= half),
                false => ends.len() / 2,
            };
            let middle = middle.clamp(1, ends.len() - 1);
            let (first, last) = product.split_at_mut(middle);
            let middle = rows.start + middle;
            rayon::join(
                || self.multiply(rows.start..middle, first),
                || self.multiply(middle..rows.end, last),
            );
        }
    }

    /// The index of the first term of a row.
    fn start(&self, row: usize) -> usize {
        row.checked_sub(1).map_or(0, |before| self.row_ends[before] as usize)
    }

    fn sum(&self, terms: Range<usize>) -> Fr {
        self.terms[terms].iter().fold(Fr::ZERO, |sum, term| {
            let value = self.vector[term.column as usize];
            match term.coefficient {
                ONE => sum + value,
                MINUS_ONE => sum - value,
                index => sum + value * self.coefficients[(index - UNIT_COEFFICIENTS) as usize],
            }
        })
    }

    fn sum_in_parallel(&self, terms: Range<usize>) -> Fr {
        let starts = terms.clone().into_par_iter().step_by(TASK_TERMS);
        let sums = starts.map(|at| self.sum(at..terms.end.min(at + TASK_TERMS)));
        sums.reduce(|| Fr::ZERO, |a, b| a + b)
    }
}

#[cfg(test)]
mod tests {
    use ark_ff::{One, UniformRand};
    use ark_std::rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;
    use crate::sparse::SparseBuilder;

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
            let mut builder = SparseBuilder::new(rows.len(), columns);
            rows.iter().for_each(|row| builder.push_row(row.iter().copied()).unwrap());
            let matrix = builder.build().unwrap();
            let mut product = vec![Fr::ZERO; rows.len()];
            matrix.multiply(&vector, &mut product);
            assert_eq!(product, expected);
            for terms in [1, 2, 5, TASK_TERMS, 4 * TASK_TERMS] {
                let mut product = vec![Fr::ZERO; rows.len()];
                let mut pieces = 0;
                for piece in matrix.pieces(terms) {
                    let (rows, terms_of_piece) = match &piece {
                        MatrixPiece::Rows(rows) => (rows.len(), matrix.terms_of(rows.clone())),
                        MatrixPiece::PartOfRow { terms, .. } => (1, terms.clone()),
                    };
                    assert!((1..=terms).contains(&rows) && terms_of_piece.len() <= terms);
                    matrix.add_piece(piece, &vector, &mut product);
                    pieces += 1;
                }
                assert_eq!(product, expected, "pieces of {terms} terms");
                let least = matrix.terms().len().div_ceil(terms).max(rows.len().div_ceil(terms));
                assert!((least..=2 * least + rows.len()).contains(&pieces));
            }
            for (index, row) in rows.iter().enumerate() {
                assert!(matrix.row(index).eq(row.iter().copied()));
                assert_eq!(matrix.multiply_row(index, &vector), expected[index]);
            }
        }
    }
}
