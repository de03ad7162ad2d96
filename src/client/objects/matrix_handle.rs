//! Handles and metadata of matrices on the server.

use std::{fmt, sync::Arc};

use capstan_math::sparse::SparseShape;

use super::held::HeldObject;
use crate::MatrixId;

/// Metadata of a matrix on the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatrixInfo {
    /// Content hash.
    pub id: MatrixId,
    /// Numbers of rows, columns, terms and stored coefficients.
    pub shape: SparseShape,
    /// Bytes used on the server.
    pub bytes: u64,
    /// Whether the matrix is stored in the data directory.
    pub persisted: bool,
    /// Label for people.
    pub label: String,
    /// When the server received it, in seconds of Unix time.
    pub created_s: i64,
}

/// A matrix on the server. Cheap to clone.
#[derive(Clone)]
pub struct MatrixHandle {
    info: Arc<MatrixInfo>,
    /// The matrix, if this process holds it.
    pub(crate) held: Option<Arc<HeldObject>>,
}

impl fmt::Debug for MatrixHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MatrixHandle").field("info", &self.info).finish_non_exhaustive()
    }
}

impl MatrixHandle {
    /// A handle to a matrix that this process does not hold.
    #[doc(hidden)]
    pub fn new(info: MatrixInfo) -> Self {
        Self { info: Arc::new(info), held: None }
    }

    /// Metadata of the matrix.
    pub fn info(&self) -> &MatrixInfo {
        &self.info
    }

    /// Id of the matrix.
    pub fn id(&self) -> MatrixId {
        self.info.id
    }

    /// Shape of the matrix.
    pub fn shape(&self) -> SparseShape {
        self.info.shape
    }
}
