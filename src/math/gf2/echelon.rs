//! Reduced row echelon forms and ranks.

use super::{
    elimination::{
        Elimination, EliminationProgress, LeadingColumns, MatrixElimination, ReducedRows,
    },
    matrix::BitMatrix,
    problem::EliminationError,
};

/// A matrix in reduced row echelon form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Echelon {
    /// The rows that are not zero, by leading column, and then rows of zeros. A leading column is
    /// zero in all other rows.
    pub matrix: BitMatrix,
    /// The leading columns. Their number is the rank.
    pub leading: Vec<u32>,
}

/// The reduced row echelon form of a matrix.
///
/// `watch` learns how far it is, from several threads, and ends it by false. Runs in parallel on
/// the current rayon pool, in memory of the size of the matrix in addition to it.
///
/// Errors: `Stopped`.
pub fn echelon(
    matrix: BitMatrix,
    watch: &(dyn Fn(EliminationProgress) -> bool + Sync),
) -> Result<Echelon, EliminationError> {
    echelon_by(matrix, |matrix| matrix.run_on_host(watch))
}

/// Like [`echelon`], by what eliminates a matrix.
///
/// Errors: those of `eliminate`.
pub fn echelon_by<E>(
    mut matrix: BitMatrix,
    eliminate: impl FnOnce(&mut MatrixElimination<'_>) -> Result<LeadingColumns, E>,
) -> Result<Echelon, E> {
    let none = no_pivots(&matrix);
    let given_at = vec![None; matrix.columns()];
    let leading = eliminate(&mut MatrixElimination {
        given: &none,
        given_at: &given_at,
        rows: &mut matrix,
        reduced: ReducedRows::All,
    })?;
    let mut leading: Vec<_> = leading.into_iter().flatten().collect();
    leading.sort_unstable();
    Ok(Echelon { matrix, leading })
}

/// The rank of a matrix. Rows that are pivots are not reduced further, so this takes less time than
/// [`echelon`].
///
/// Errors: `Stopped`.
pub fn rank(
    matrix: &BitMatrix,
    watch: &(dyn Fn(EliminationProgress) -> bool + Sync),
) -> Result<u64, EliminationError> {
    let none = no_pivots(matrix);
    let given_at = vec![None; matrix.columns()];
    let mut elimination = Elimination::new(&none, &given_at, matrix, ReducedRows::Remaining);
    elimination.run(watch)?;
    Ok(elimination.leading.iter().flatten().count() as u64)
}

fn no_pivots(matrix: &BitMatrix) -> BitMatrix {
    BitMatrix::zeros(0, matrix.columns() as u64).expect("smaller than an existing matrix")
}
