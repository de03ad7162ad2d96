//! What answers of gRPC reflection take of the budgets: the handler is tonic's, which has none.

use std::sync::Arc;

use tonic::{body::Body, codegen::http::Request};

use super::{
    state::ServerState,
    transport_parts::{ResponsePermit, bytes_of_chunks},
    unary_body,
};
use crate::{error::Result, jobs::admit, telemetry, wire::DESCRIPTOR_SET};

const PATH_PREFIX: &str = "/grpc.reflection.";

/// Bytes of a call's answers while nobody reads them: one in the handler's queue, one that waits
/// for its turn, and what the transport holds. Each answer has all descriptors at most.
const UNREAD_BYTES: u64 = 2 * DESCRIPTOR_SET.len() as u64 + bytes_of_chunks(u64::MAX);

/// Takes bytes for the answers of a call from the budgets; `None` for a call of another service.
///
/// Errors: `Exhausted`.
pub fn admit_response(
    request: &Request<Body>,
    state: &ServerState,
) -> Result<Option<ResponsePermit>> {
    if !request.uri().path().starts_with(PATH_PREFIX) {
        return Ok(None);
    }
    let own = unary_body::own_budgets(request.extensions());
    let budgets: Vec<_> = own.iter().chain([&state.budget]).collect();
    let permit = admit(&budgets, UNREAD_BYTES, 0).inspect_err(telemetry::count_refusal)?;
    Ok(Some(ResponsePermit { _permit: Arc::new(permit) }))
}
