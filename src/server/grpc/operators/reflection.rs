//! What answers of gRPC reflection take of the budgets: the handler is tonic's, which has none.

use std::sync::Arc;

use tonic::{body::Body, codegen::http::Request};

use crate::grpc::{
    requests::unary_body::CallBudgets,
    responses::transport_parts::{ResponsePermit, bytes_of_chunks},
    state::ServerState,
};
use crate::{error::Result, telemetry, wire::DESCRIPTOR_SET};

const PATH_PREFIX: &str = "/grpc.reflection.";

/// Maximum size of a request: the name of a symbol or a file. Each answer repeats its request.
pub const REQUEST_BYTES_MAX: usize = 4 << 10;

/// Bytes of an answer: all descriptors at most, and the request, which it holds twice.
const ANSWER_BYTES: u64 = (DESCRIPTOR_SET.len() + 2 * REQUEST_BYTES_MAX) as u64;

/// Bytes of a call's answers while nobody reads them: one in the handler's queue, one that waits
/// for its turn, and what the transport holds.
const UNREAD_BYTES: u64 = 2 * ANSWER_BYTES + bytes_of_chunks(u64::MAX);

/// Takes bytes from `budgets` for the answers of a call, and for requests that the transport
/// holds while no answer is read; `None` for a call of another service.
///
/// Errors: `Exhausted`.
pub fn admit_response(
    request: &Request<Body>,
    budgets: &CallBudgets,
    state: &ServerState,
) -> Result<Option<ResponsePermit>> {
    if !request.uri().path().starts_with(PATH_PREFIX) {
        return Ok(None);
    }
    let requests = u64::from(state.settings.http2_stream_window_bytes);
    let permit = || -> Result<_> {
        let mut permit = budgets.admit_share(UNREAD_BYTES + requests)?;
        if let Some(tenant) = &budgets.tenant {
            permit.push(tenant.unread_bytes.acquire(UNREAD_BYTES)?);
        }
        Ok(permit)
    };
    let permit = permit().inspect_err(telemetry::count_refusal)?;
    Ok(Some(ResponsePermit { _permit: Arc::new(permit) }))
}
