//! Bodies of the methods that receive chunks. tonic's decoder would copy all of them, so the
//! handlers of these methods read the frames themselves.

use std::sync::Arc;

use parking_lot::Mutex;
use tonic::{Request, Status, Streaming, body::Body, codegen::http};

use crate::error::Error;
use crate::grpc::calls::status::status_of;
use crate::settings::ServerSettings;
use crate::wire::{
    MessageReader,
    v1::{compute_server::SERVICE_NAME as COMPUTE, store_server::SERVICE_NAME as STORE},
};

/// A request extension: the body, until the handler takes it.
#[derive(Clone)]
struct UnreadBody(Arc<Mutex<Option<Body>>>);

pub fn is_streamed(request: &http::Request<Body>) -> bool {
    let path = request.uri().path().strip_prefix('/').and_then(|path| path.split_once('/'));
    match path {
        Some((COMPUTE, method)) => matches!(method, "MsmStream" | "NttStream" | "Run"),
        Some((STORE, method)) => method == "Put",
        _ => false,
    }
}

/// Hides the body of a streamed request from tonic.
pub fn set_aside(request: http::Request<Body>) -> http::Request<Body> {
    let (mut parts, body) = request.into_parts();
    parts.extensions.insert(UnreadBody(Arc::new(Mutex::new(Some(body)))));
    http::Request::from_parts(parts, Body::empty())
}

/// The request with a reader of its messages, instead of tonic's, which has none.
///
/// Errors: `Internal` if the body was not set aside.
pub fn messages<M>(
    request: Request<Streaming<M>>,
    settings: &ServerSettings,
) -> Result<Request<MessageReader<M>>, Status> {
    let (metadata, mut extensions, _) = request.into_parts();
    let unread = extensions.remove::<UnreadBody>();
    let body = unread.and_then(|UnreadBody(body)| body.lock().take());
    let missing = || status_of(Error::internal("the request has no body"));
    let body = body.ok_or_else(missing)?;
    let messages = MessageReader::of_request(body, settings.message_bytes_max());
    Ok(Request::from_parts(metadata, extensions, messages))
}
