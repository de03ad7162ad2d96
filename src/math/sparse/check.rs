//! Checks of a matrix that was received or read.

use std::sync::Arc;

use ark_ff::PrimeField;
use rayon::prelude::*;

use super::{
    matrix::{BadMatrix, MatrixOwner, SparseMatrix, SparseTerm},
    shape::{SparseShape, UNIT_COEFFICIENTS},
};
use crate::{curve::Fr, error::FieldProblem};

/// Elements that one task checks.
const TASK_ELEMENTS: usize = 1 << 16;

impl SparseMatrix {
    /// The matrix that the first bytes of `owner` hold. Runs in parallel on the current rayon pool.
    ///
    /// Errors: what is wrong with the bytes.
    pub fn new(shape: SparseShape, owner: Arc<dyn MatrixOwner>) -> Result<Self, BadMatrix> {
        let matrix = Self::unchecked(shape, owner)?;
        check(&matrix)?;
        Ok(matrix)
    }
}

/// Checks that coefficients are canonical, that columns and coefficients exist, and that rows end
/// in order and at the last term. Runs in parallel on the current rayon pool.
///
/// Errors: the first element that is wrong, of coefficients, then of terms, then of rows.
pub fn check(matrix: &SparseMatrix) -> Result<(), BadMatrix> {
    let shape = matrix.shape();
    check_coefficients(matrix.coefficients(), 0)?;
    check_terms(shape, matrix.terms(), 0)?;
    check_row_ends(shape, matrix.row_ends(), 0, 0)?;
    match shape.rows == 0 && shape.terms > 0 {
        true => Err(BadMatrix { part: "row_ends", index: None, problem: FieldProblem::Missing }),
        false => Ok(()),
    }
}

/// Checks coefficients, the first of which has the index `first`.
pub(super) fn check_coefficients(coefficients: &[Fr], first: u64) -> Result<(), BadMatrix> {
    first_bad("coefficients", coefficients, first, |_, coefficient| {
        let is_canonical = coefficient.0 < Fr::MODULUS;
        (!is_canonical).then_some(FieldProblem::NotCanonical)
    })
}

/// Checks terms, the first of which has the index `first`.
pub(super) fn check_terms(
    shape: SparseShape,
    terms: &[SparseTerm],
    first: u64,
) -> Result<(), BadMatrix> {
    let SparseShape { columns, coefficients, .. } = shape;
    // In 64 bits: there may be 2^32 + 1 indices, and no column.
    let coefficients = u64::from(coefficients) + u64::from(UNIT_COEFFICIENTS);
    first_bad("terms", terms, first, |_, term| {
        if term.column >= columns {
            return Some(too_large(columns.saturating_sub(1)));
        }
        let exists = u64::from(term.coefficient) < coefficients;
        (!exists).then_some(FieldProblem::TooLarge { max: coefficients - 1 })
    })
}

/// Checks the ends of rows, the first of which has the index `first` and begins with term `start`.
pub(super) fn check_row_ends(
    shape: SparseShape,
    ends: &[u32],
    first: u64,
    start: u32,
) -> Result<(), BadMatrix> {
    let SparseShape { rows, terms, .. } = shape;
    first_bad("row_ends", ends, first, |at, &end| {
        let start = at.checked_sub(1).map_or(start, |before| ends[before]);
        let is_last = first + at as u64 + 1 == u64::from(rows);
        if end < start || (is_last && end < terms) {
            let min = if is_last { terms } else { start };
            return Some(FieldProblem::TooSmall { min: min.into() });
        }
        (end > terms).then_some(too_large(terms))
    })
}

fn too_large(max: u32) -> FieldProblem {
    FieldProblem::TooLarge { max: max.into() }
}

/// The first of `elements` that has a problem; `first` is the index of the first element.
fn first_bad<T: Sync>(
    part: &'static str,
    elements: &[T],
    first: u64,
    problem: impl Fn(usize, &T) -> Option<FieldProblem> + Sync,
) -> Result<(), BadMatrix> {
    let bad = elements.par_chunks(TASK_ELEMENTS).enumerate().find_map_first(|(task, elements)| {
        let mut elements = elements.iter().enumerate();
        elements.find_map(|(at, element)| {
            let at = task * TASK_ELEMENTS + at;
            let problem = problem(at, element)?;
            Some(BadMatrix { part, index: Some(first + at as u64), problem })
        })
    });
    bad.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{curve::layout::fr_as_bytes, sparse::shape::ONE};

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
