//! Vectors over GF(2) as matrices of bits, for steps that eliminate on the host.

use std::mem;

use zeroize::Zeroizing;

use super::{HostArgument, HostContext, HostResult, vector_bytes};
use crate::{
    engines::{ExecutedBy, JobControl},
    error::{Error, FieldProblem, Result},
    field::Gf2Words,
    gf2::{
        self, BadPivot, BitMatrix, EliminationError, LeadingColumns, MatrixElimination,
        MatrixSizeError, rows_of_words,
    },
    gf2_elimination::HostBitsShape,
    program::ValueType,
};

/// The number of rows of a matrix of bits.
pub fn bit_rows(value: ValueType, columns: u64) -> u64 {
    rows_of_words(vector_bytes(value) / 8, columns)
}

/// The matrix of an input, which is the step's field `name`.
///
/// Errors: `Invalid` for the first row with a bit after its last column; those of `control`.
pub fn bit_matrix(
    input: HostArgument<'_>,
    columns: u64,
    name: &'static str,
    control: &JobControl,
) -> Result<BitMatrix> {
    let mut rows = input.into_rows(Gf2Words, control)?;
    let words = rows.first_mut().map(mem::take).unwrap_or_default();
    let count = rows_of_words(words.len() as u64, columns);
    BitMatrix::from_words(count, columns, words).map_err(|problem| match problem {
        MatrixSizeError::UnusedBits { row } => {
            Error::element(name, row as u64, FieldProblem::UnusedBits)
        }
        problem => Error::Internal(format!("a matrix has a wrong shape: {problem}")),
    })
}

/// The value that is a matrix.
pub fn of_bit_matrix(EliminatedBits { made, executor }: EliminatedBits<BitMatrix>) -> HostResult {
    let rows = HostResult::of_rows(Gf2Words, Zeroizing::new(vec![made.into_words()]));
    HostResult { executor, ..rows }
}

/// Eliminates by the engine, or by the host's threads if these are faster or the engine has no
/// memory. Returns what the step's `operation` makes of it.
///
/// Errors: those of `operation`, of the engine and of its control.
pub fn eliminate<T>(
    context: &HostContext<'_>,
    pivots: &'static str,
    operation: impl FnOnce(&mut Eliminate<'_>) -> Result<T, EliminationFailure>,
) -> Result<EliminatedBits<T>> {
    let HostContext { engine, control, .. } = context;
    let mut executor = None;
    let mut eliminate = |matrix: &mut MatrixElimination<'_>| {
        if let Some(eliminated) = engine.eliminate(matrix, control)? {
            executor = Some(eliminated.executor);
            return Ok(eliminated.leading);
        }
        Ok(matrix.run_on_host(&|_| control.check().is_ok())?)
    };
    let made = operation(&mut eliminate).map_err(|failure| match failure {
        EliminationFailure::Engine(error) => error,
        EliminationFailure::Matrix(error) => elimination_error(error, control, pivots),
    });
    made.map(|made| EliminatedBits { made, executor })
}

/// Eliminates a matrix.
pub type Eliminate<'a> =
    dyn FnMut(&mut MatrixElimination<'_>) -> Result<LeadingColumns, EliminationFailure> + 'a;

/// Why a matrix is not eliminated.
pub enum EliminationFailure {
    Matrix(EliminationError),
    Engine(Error),
}

impl From<EliminationError> for EliminationFailure {
    fn from(error: EliminationError) -> Self {
        Self::Matrix(error)
    }
}

impl From<Error> for EliminationFailure {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

/// What an elimination has made, and what computed it if that was the engine.
pub struct EliminatedBits<T> {
    pub made: T,
    pub executor: Option<ExecutedBy>,
}

/// Bytes of working memory for the elimination of a matrix on the host or by an engine.
pub fn elimination_scratch(pivots: u64, rows: u64, columns: u64) -> u64 {
    let on_host = gf2::working_bytes(rows, columns);
    let small = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    let [given, rows, columns] = [pivots, rows, columns].map(small);
    on_host.max(HostBitsShape { given, rows, columns }.host_bytes())
}

/// Why a step that eliminates has no value; `pivots` is its field with the pivots.
pub fn elimination_error(
    error: EliminationError,
    control: &JobControl,
    pivots: &'static str,
) -> Error {
    match error {
        EliminationError::Pivot(BadPivot::Zero { row }) => {
            Error::element(pivots, row as u64, FieldProblem::Zero)
        }
        EliminationError::Pivot(BadPivot::Repeated { row, earlier }) => {
            let problem = FieldProblem::RepeatedPivot { earlier: earlier as u64 };
            Error::element(pivots, row as u64, problem)
        }
        EliminationError::Stopped => control.check().err().unwrap_or(Error::Cancelled),
        error @ EliminationError::Columns { .. } => Error::Internal(error.to_string()),
    }
}
