//! The reduction of rows by pivot rows.

use super::{
    elimination::{EliminationProgress, LeadingColumns, MatrixElimination, ReducedRows},
    matrix::BitMatrix,
    problem::{BadPivot, EliminationError},
};

/// Rows that are reduced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reduction {
    /// The rows, in the order in which they were given.
    pub rows: BitMatrix,
    /// For each row, whether it was promoted. The other rows are zero.
    pub promoted: Vec<bool>,
    /// The rank of pivots and rows together: the number of pivots and of promoted rows.
    pub rank: u64,
}

/// Reduces rows by pivot rows, one after the other: while a row's leading column is that of a
/// pivot, the pivot is added to it. A row that then is not zero is promoted: it is a pivot for the
/// rows after it. The result does not depend on the order of the pivots.
///
/// `watch` learns how far it is, from several threads, and ends it by false. Runs in parallel on
/// the current rayon pool, in memory of the size of `rows` in addition to the operands.
///
/// Errors: `Pivot` if a pivot is zero or has the leading column of another; `Columns` if pivots and
/// rows have different numbers of columns; `Stopped`.
pub fn reduce(
    pivots: &BitMatrix,
    rows: BitMatrix,
    watch: &(dyn Fn(EliminationProgress) -> bool + Sync),
) -> Result<Reduction, EliminationError> {
    reduce_by(pivots, rows, |matrix| matrix.run_on_host(watch))
}

/// Like [`reduce`], by what eliminates a matrix.
///
/// Errors: `Pivot` and `Columns`; those of `eliminate`.
pub fn reduce_by<E: From<EliminationError>>(
    pivots: &BitMatrix,
    mut rows: BitMatrix,
    eliminate: impl FnOnce(&mut MatrixElimination<'_>) -> Result<LeadingColumns, E>,
) -> Result<Reduction, E> {
    if pivots.columns() != rows.columns() {
        let (pivots, rows) = (pivots.columns(), rows.columns());
        return Err(EliminationError::Columns { pivots, rows }.into());
    }
    let given_at = by_leading_column(pivots).map_err(EliminationError::Pivot)?;
    let leading = eliminate(&mut MatrixElimination {
        given: pivots,
        given_at: &given_at,
        rows: &mut rows,
        reduced: ReducedRows::Remaining,
    })?;
    let promoted: Vec<bool> = leading.iter().map(Option::is_some).collect();
    let rank = pivots.rows() + promoted.iter().filter(|promoted| **promoted).count();
    Ok(Reduction { rows, promoted, rank: rank as u64 })
}

/// For each column, the pivot that leads there.
fn by_leading_column(pivots: &BitMatrix) -> Result<Vec<Option<u32>>, BadPivot> {
    let mut at: Vec<Option<u32>> = vec![None; pivots.columns()];
    for row in 0..pivots.rows() {
        let leading = pivots.leading_column(row).ok_or(BadPivot::Zero { row })?;
        if let Some(earlier) = at[leading].replace(row as u32) {
            return Err(BadPivot::Repeated { row, earlier: earlier as usize });
        }
    }
    Ok(at)
}
