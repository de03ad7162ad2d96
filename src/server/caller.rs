//! Whose calls a connection makes, and how urgent they are.

use std::sync::Arc;

use tonic::{Extensions, metadata::MetadataMap};

use super::state::ServerState;
use crate::{
    error::{Error, FieldProblem, Result},
    jobs::JobPriority,
    tenant::Tenant,
};

/// The metadata that names a call's priority: `batch`, `normal` or `urgent`.
const PRIORITY: &str = "capstan-priority";

/// The tenant of a request's caller.
///
/// Errors: `TenantUnknown`.
pub fn tenant(state: &ServerState, _extensions: &Extensions) -> Result<Arc<Tenant>> {
    state.tenants.find(None, "anonymous")
}

/// The priority of a call among those of its tenant.
///
/// Errors: `Invalid` for another word.
pub fn priority(metadata: &MetadataMap) -> Result<JobPriority> {
    match metadata.get(PRIORITY).map(|value| value.as_bytes()) {
        None | Some(b"normal") => Ok(JobPriority::Normal),
        Some(b"urgent") => Ok(JobPriority::Urgent),
        Some(b"batch") => Ok(JobPriority::Batch),
        Some(_) => Err(Error::field(PRIORITY, FieldProblem::OutOfRange)),
    }
}
