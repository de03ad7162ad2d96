//! Sparse matrices over Fr, as stored objects, engines and provers share them: one layout in
//! memory, in files and in messages.

mod bad_matrix;
mod builder;
mod check;
#[cfg(feature = "server")]
mod checker;
mod content_hash;
mod matrix;
mod product;
mod shape;

pub use bad_matrix::BadMatrix;
pub use builder::{SparseBuilder, SparseProblem};
pub use check::check;
#[cfg(feature = "server")]
pub use checker::MatrixChecker;
pub use content_hash::content_hash;
#[cfg(feature = "server")]
pub(crate) use content_hash::content_hasher;
#[cfg(feature = "server")]
pub use matrix::WeakMatrix;
pub use matrix::{MatrixOwner, SparseMatrix, SparseTerm};
pub use shape::{MINUS_ONE, ONE, SparseShape, UNIT_COEFFICIENTS};
