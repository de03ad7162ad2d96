//! What is wrong with a matrix.

use super::shape::SparseShape;
use crate::error::FieldProblem;

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
