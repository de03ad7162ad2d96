//! Checks of a matrix that was received or read.

use ark_ff::PrimeField;
use rayon::prelude::*;

use super::{
    matrix::SparseMatrix,
    shape::{SparseShape, UNIT_COEFFICIENTS},
};
use crate::error::FieldProblem;

/// Elements that one task checks.
const TASK_ELEMENTS: usize = 1 << 16;

/// What is wrong with a matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{part}{at}: {problem}", at = self.suffix())]
pub struct BadMatrix {
    /// `coefficients`, `terms` or `row_ends`; `matrix` for the whole.
    pub part: &'static str,
    /// The index of the element that is wrong; `None` for the whole part.
    pub index: Option<u64>,
    /// What is wrong.
    pub problem: FieldProblem,
}

impl BadMatrix {
    pub(super) fn length(shape: SparseShape, got: usize) -> Self {
        let problem = FieldProblem::Length { expected: shape.bytes(), got: got as u64 };
        Self { part: "matrix", index: None, problem }
    }

    fn suffix(&self) -> String {
        self.index.map_or_else(String::new, |index| format!("[{index}]"))
    }
}

/// Checks that coefficients are canonical, that columns and coefficients exist, and that rows end in
/// order and at the last term. Runs in parallel on the current rayon pool.
///
/// Errors: the first element that is wrong, of coefficients, then of terms, then of rows.
pub fn check(matrix: &SparseMatrix) -> Result<(), BadMatrix> {
    let SparseShape { columns, terms, coefficients, .. } = matrix.shape();
    let too_large = |max: u32| FieldProblem::TooLarge { max: max.into() };
    first_bad("coefficients", matrix.coefficients(), |_, coefficient| {
        let is_canonical = coefficient.0 < ark_bls12_381::Fr::MODULUS;
        (!is_canonical).then_some(FieldProblem::NotCanonical)
    })?;
    // In 64 bits: there may be 2^32 + 1 indices, and no column.
    let coefficients = u64::from(coefficients) + u64::from(UNIT_COEFFICIENTS);
    first_bad("terms", matrix.terms(), |_, term| {
        if term.column >= columns {
            return Some(too_large(columns.saturating_sub(1)));
        }
        let exists = u64::from(term.coefficient) < coefficients;
        (!exists).then_some(FieldProblem::TooLarge { max: coefficients - 1 })
    })?;
    let ends = matrix.row_ends();
    first_bad("row_ends", ends, |index, &end| {
        let start = index.checked_sub(1).map_or(0, |before| ends[before]);
        let is_last = index + 1 == ends.len();
        if end < start || (is_last && end < terms) {
            let min = if is_last { terms } else { start };
            return Some(FieldProblem::TooSmall { min: min.into() });
        }
        (end > terms).then_some(too_large(terms))
    })?;
    match ends.is_empty() && terms > 0 {
        true => Err(BadMatrix { part: "row_ends", index: None, problem: FieldProblem::Missing }),
        false => Ok(()),
    }
}

fn first_bad<T: Sync>(
    part: &'static str,
    elements: &[T],
    problem: impl Fn(usize, &T) -> Option<FieldProblem> + Sync,
) -> Result<(), BadMatrix> {
    let bad = elements.par_chunks(TASK_ELEMENTS).enumerate().find_map_first(|(task, elements)| {
        let mut elements = elements.iter().enumerate();
        elements.find_map(|(at, element)| {
            let index = task * TASK_ELEMENTS + at;
            Some(BadMatrix { part, index: Some(index as u64), problem: problem(index, element)? })
        })
    });
    bad.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        curve::{Fr, layout::fr_as_bytes},
        sparse::{SparseTerm, shape::ONE},
    };

    /// Three rows of four columns, with one stored coefficient.
    struct Parts {
        coefficient: [u8; 32],
        terms: Vec<SparseTerm>,
        row_ends: Vec<u32>,
    }

    fn parts() -> Parts {
        let coefficient = fr_as_bytes(&[Fr::from(5)]).try_into().unwrap();
        let term = |column, coefficient| SparseTerm { column, coefficient };
        let terms = vec![term(0, ONE), term(3, 2), term(1, 1)];
        Parts { coefficient, terms, row_ends: vec![2, 2, 3] }
    }

    fn read(parts: &Parts) -> Result<SparseMatrix, BadMatrix> {
        let Parts { coefficient, terms, row_ends } = parts;
        let mut bytes = coefficient.to_vec();
        bytes.extend_from_slice(bytemuck::cast_slice(terms));
        bytes.extend_from_slice(bytemuck::cast_slice(row_ends));
        let (rows, terms) = (row_ends.len() as u32, terms.len() as u32);
        let shape = SparseShape { rows, columns: 4, terms, coefficients: 1 };
        let mut limbs = vec![0_u64; bytes.len().div_ceil(8)];
        bytemuck::cast_slice_mut(&mut limbs)[..bytes.len()].copy_from_slice(&bytes);
        SparseMatrix::new(shape, Arc::new(limbs))
    }

    fn refused(change: impl FnOnce(&mut Parts)) -> BadMatrix {
        let mut parts = parts();
        change(&mut parts);
        read(&parts).unwrap_err()
    }

    #[test]
    fn accepts_a_matrix_and_reads_its_rows() {
        let matrix = read(&parts()).unwrap();
        let rows: Vec<Vec<_>> = (0..3).map(|row| matrix.row(row).collect()).collect();
        let expected =
            [vec![(Fr::from(1), 0), (Fr::from(5), 3)], Vec::new(), vec![(-Fr::from(1), 1)]];
        assert_eq!(rows, expected);
    }

    #[test]
    fn refuses_what_does_not_exist() {
        let too_large = |max| FieldProblem::TooLarge { max };
        let bad = |part, index, problem| BadMatrix { part, index: Some(index), problem };
        let column = refused(|parts| parts.terms[1].column = 4);
        assert_eq!(column, bad("terms", 1, too_large(3)));
        let coefficient = refused(|parts| parts.terms[2].coefficient = 3);
        assert_eq!(coefficient, bad("terms", 2, too_large(2)));
        let not_canonical = refused(|parts| parts.coefficient = [0xff; 32]);
        assert_eq!(not_canonical, bad("coefficients", 0, FieldProblem::NotCanonical));
        let beyond = refused(|parts| parts.row_ends[0] = 4);
        assert_eq!(beyond, bad("row_ends", 0, too_large(3)));
        let min = |min| FieldProblem::TooSmall { min };
        assert_eq!(refused(|parts| parts.row_ends[1] = 1), bad("row_ends", 1, min(2)));
        assert_eq!(refused(|parts| parts.row_ends[2] = 2), bad("row_ends", 2, min(3)));
        let without_rows = refused(|parts| parts.row_ends.clear());
        assert_eq!(without_rows.problem, FieldProblem::Missing);
    }

    #[test]
    fn refuses_bytes_that_are_too_short() {
        let shape = SparseShape { rows: 1, columns: 1, terms: 1, coefficients: 1 };
        let owner = Arc::new(vec![0_u64; 5]);
        let problem = FieldProblem::Length { expected: 44, got: 40 };
        let refused = SparseMatrix::new(shape, owner).unwrap_err();
        assert_eq!(refused, BadMatrix { part: "matrix", index: None, problem });
    }
}
