//! A matrix, whose memory jobs share, and what may be wrong with one.

use std::{
    fmt,
    ops::Range,
    os::fd::BorrowedFd,
    sync::{Arc, Weak},
};

use bytemuck::{Pod, Zeroable};

use super::shape::{SparseShape, UNIT_COEFFICIENTS};
use crate::{
    curve::{Fr, layout},
    error::FieldProblem,
};

/// An entry of a row: its column, and the index of its coefficient.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct SparseTerm {
    /// The index of the column.
    pub column: u32,
    /// The index of the coefficient.
    pub coefficient: u32,
}

/// Holds the bytes of a matrix.
pub trait MatrixOwner: Send + Sync {
    /// The bytes, aligned to 8 bytes.
    fn bytes(&self) -> &[u8];

    /// The file that they are mapped from, and the first byte in it, if there is one.
    fn file(&self) -> Option<(BorrowedFd<'_>, u64)> {
        None
    }

    /// False if some bytes could not be read from the file, and were read as zeros.
    fn is_intact(&self) -> bool {
        true
    }

    /// Notes that another process could not read some bytes of the file.
    fn mark_damaged(&self) {}
}

impl MatrixOwner for Vec<u64> {
    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(self)
    }
}

/// A matrix, most of whose elements are 0. Clones share its memory. [`Self::new`] checks it, and
/// [`Self::unchecked`] trusts its caller.
#[derive(Clone)]
pub struct SparseMatrix {
    shape: SparseShape,
    owner: Arc<dyn MatrixOwner>,
    /// Kept as long as the matrix is in use: what it is charged to, for example.
    _guard: Option<Arc<dyn Send + Sync>>,
}

impl SparseMatrix {
    /// The matrix that the first bytes of `owner` hold, which were checked before.
    ///
    /// Errors: `Length`.
    pub fn unchecked(shape: SparseShape, owner: Arc<dyn MatrixOwner>) -> Result<Self, BadMatrix> {
        let bytes = owner.bytes();
        let is_aligned = bytes.as_ptr().cast::<u64>().is_aligned();
        match is_aligned && bytes.len() as u64 >= shape.bytes() {
            true => Ok(Self { shape, owner, _guard: None }),
            false => Err(BadMatrix::length(shape, bytes.len())),
        }
    }

    /// The shape.
    pub fn shape(&self) -> SparseShape {
        self.shape
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.shape.rows as usize
    }

    /// False if some bytes could not be read from their file, and were read as zeros.
    pub fn is_intact(&self) -> bool {
        self.owner.is_intact()
    }

    /// Notes that another process could not read some bytes of the file.
    pub fn mark_damaged(&self) {
        self.owner.mark_damaged();
    }

    /// The bytes of [`SparseShape`].
    pub fn as_bytes(&self) -> &[u8] {
        &self.owner.bytes()[..self.shape.bytes() as usize]
    }

    /// The stored coefficients: that of index i is `coefficients()[i - UNIT_COEFFICIENTS]`.
    pub fn coefficients(&self) -> &[Fr] {
        let bytes = &self.as_bytes()[self.shape.coefficient_bytes()];
        layout::fr_from_bytes(bytes).expect("the owner's bytes are aligned")
    }

    /// The terms of all rows, one row after another.
    pub fn terms(&self) -> &[SparseTerm] {
        bytemuck::cast_slice(&self.as_bytes()[self.shape.term_bytes()])
    }

    /// For each row, the index after its last term.
    pub fn row_ends(&self) -> &[u32] {
        bytemuck::cast_slice(&self.as_bytes()[self.shape.row_bytes()])
    }

    /// The indices of the terms of adjacent rows.
    pub fn terms_of(&self, rows: Range<usize>) -> Range<usize> {
        let ends = self.row_ends();
        let start = rows.start.checked_sub(1).map_or(0, |before| ends[before]);
        let end = rows.end.checked_sub(1).map_or(0, |last| ends[last]);
        start as usize..end as usize
    }

    /// The coefficients of a row, and their columns.
    pub fn row(&self, row: usize) -> impl Iterator<Item = (Fr, usize)> {
        let terms = self.terms()[self.terms_of(row..row + 1)].iter();
        terms.map(|term| (self.coefficient(term.coefficient), term.column as usize))
    }

    #[inline]
    fn coefficient(&self, index: u32) -> Fr {
        match index.checked_sub(UNIT_COEFFICIENTS) {
            Some(stored) => self.coefficients()[stored as usize],
            None if index == super::ONE => Fr::from(1),
            None => -Fr::from(1),
        }
    }

    /// The same matrix, which keeps `guard` instead of what it kept.
    pub fn with_guard(self, guard: Option<Arc<dyn Send + Sync>>) -> Self {
        Self { _guard: guard, ..self }
    }

    /// The file that the matrix is mapped from, and its first byte there, if there is one.
    pub fn file(&self) -> Option<(BorrowedFd<'_>, u64)> {
        self.owner.file()
    }

    /// The matrix, to recognise it later.
    pub fn downgrade(&self) -> WeakMatrix {
        WeakMatrix(Arc::downgrade(&self.owner))
    }
}

impl PartialEq for SparseMatrix {
    fn eq(&self, other: &Self) -> bool {
        self.shape == other.shape && self.as_bytes() == other.as_bytes()
    }
}

impl fmt::Debug for SparseMatrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shape.fmt(f)
    }
}

/// Identifies a matrix by its memory, which is not used again while this exists.
#[derive(Clone)]
pub struct WeakMatrix(Weak<dyn MatrixOwner>);

impl WeakMatrix {
    /// False once the matrix has been dropped.
    pub fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// Whether this is the memory of `matrix`.
    pub fn is_of(&self, matrix: &SparseMatrix) -> bool {
        self.0.ptr_eq(&Arc::downgrade(&matrix.owner))
    }
}

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
    fn length(shape: SparseShape, got: usize) -> Self {
        let problem = FieldProblem::Length { expected: shape.bytes(), got: got as u64 };
        Self { part: "matrix", index: None, problem }
    }

    fn suffix(&self) -> String {
        self.index.map_or_else(String::new, |index| format!("[{index}]"))
    }
}
