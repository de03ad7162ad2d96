//! Names and metadata of matrices on the server.

use std::{fmt, str::FromStr, sync::Arc};

use bytes::Bytes;
use capstan_math::sparse::SparseShape;

use super::held::HeldObject;
use crate::error::{ClientError, Result};

/// Content hash that names a matrix. Displayed as 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MatrixId(pub [u8; 32]);

impl MatrixId {
    pub(crate) fn to_bytes(self) -> Bytes {
        Bytes::copy_from_slice(&self.0)
    }
}

impl fmt::Display for MatrixId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for MatrixId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MatrixId({self})")
    }
}

impl FromStr for MatrixId {
    type Err = ClientError;

    fn from_str(text: &str) -> Result<Self> {
        let mut id = [0; 32];
        hex::decode_to_slice(text, &mut id).map_err(|error| {
            ClientError::setting("matrix id", format!("expected 64 hex digits: {error}"))
        })?;
        Ok(Self(id))
    }
}

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
