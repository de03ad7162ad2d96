//! How urgent a call is among those of its tenant.

use tonic::metadata::MetadataMap;

use crate::{
    error::{Error, FieldProblem, Result},
    jobs::JobPriority,
    wire::PRIORITY_METADATA,
};

/// The priority that the metadata of a call names: `batch`, `normal` or `urgent`.
///
/// Errors: `Invalid` for another word.
pub fn of(metadata: &MetadataMap) -> Result<JobPriority> {
    match metadata.get(PRIORITY_METADATA).map(|value| value.as_bytes()) {
        None | Some(b"normal") => Ok(JobPriority::Normal),
        Some(b"urgent") => Ok(JobPriority::Urgent),
        Some(b"batch") => Ok(JobPriority::Batch),
        Some(_) => Err(Error::field(PRIORITY_METADATA, FieldProblem::OutOfRange)),
    }
}
