//! What an upload is of.

use crate::{
    error::{InputError, Result},
    wire::decode::{ObjectUploadHeader, UploadId, VectorUploadHeader},
};

/// The header of an upload, which determines what it becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UploadHeader {
    /// A vector, kept in its own encoding.
    Vector(VectorUploadHeader),
    /// Bases or a matrix, which are checked and named by their content.
    Object(ObjectUploadHeader),
}

impl UploadHeader {
    pub fn id(&self) -> UploadId {
        match self {
            Self::Vector(vector) => vector.id,
            Self::Object(object) => object.id,
        }
    }

    /// Errors: `Invalid` if the number of bytes overflows.
    pub fn bytes(&self) -> Result<u64, InputError> {
        match self {
            Self::Vector(vector) => vector.bytes(),
            Self::Object(object) => object.content.payload_bytes(),
        }
    }

    pub fn streams(&self) -> u32 {
        match self {
            Self::Vector(vector) => vector.streams,
            Self::Object(object) => object.streams,
        }
    }

    /// True if both describe the same payload: a resumed upload may use other streams.
    pub fn describes_payload_of(&self, other: &Self) -> bool {
        let mut other = other.clone();
        match &mut other {
            Self::Vector(vector) => vector.streams = self.streams(),
            Self::Object(object) => object.streams = self.streams(),
        }
        *self == other
    }
}
