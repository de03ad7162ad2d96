//! Sparse matrices over Fr, as stored objects, engines and provers share them: one layout in
//! memory, in files and in messages.

mod builder;
mod check;
mod checker;
mod content_hash;
mod matrix;
mod product;
mod shape;

pub use builder::{SparseBuilder, SparseProblem};
pub use check::check;
pub use checker::MatrixChecker;
pub use content_hash::{content_hash, content_hasher};
pub use matrix::{BadMatrix, MatrixOwner, SparseMatrix, SparseTerm, WeakMatrix};
pub use shape::{MINUS_ONE, ONE, SparseShape, UNIT_COEFFICIENTS};
