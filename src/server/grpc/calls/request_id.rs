//! The outermost layer, which looks at each request first: it refuses what is not a gRPC call, and
//! gives each call an id, which logs, spans and responses carry.

use std::{
    pin::Pin,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll},
};

use tonic::{
    body::Body,
    codegen::http::{
        HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header::CONTENT_TYPE,
    },
};
use tower::Service;

use crate::grpc::connections::connection::Peer;
use crate::{telemetry::TraceParent, wire::REQUEST_ID_METADATA};

/// The longest id that a caller can choose.
const ID_BYTES_MAX: usize = 64;
/// W3C Trace Context.
const TRACE_PARENT: &str = "traceparent";

/// A request extension: names a call in logs.
#[derive(Debug, Clone)]
pub struct RequestId {
    /// Chosen by the caller or by the server.
    pub id: Arc<str>,
    /// The trace that the caller continues.
    pub trace: Option<TraceParent>,
}

impl RequestId {
    fn of(headers: &HeaderMap) -> Self {
        let chosen = headers.get(REQUEST_ID_METADATA).and_then(|id| id.to_str().ok());
        let id = chosen.filter(|id| is_id(id)).map_or_else(next_id, Arc::from);
        let parent = headers.get(TRACE_PARENT).and_then(|parent| parent.to_str().ok());
        Self { id, trace: parent.and_then(TraceParent::parse) }
    }
}

/// Whether a caller's text can be an id: short and of plain characters.
fn is_id(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=ID_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_plain)
}

/// An id that differs from those of this process and, most probably, of others.
fn next_id() -> Arc<str> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    static PROCESS: LazyLock<u32> = LazyLock::new(|| {
        let mut bytes = [0; 4];
        // Without randomness, ids are still unique in the process.
        let _random = getrandom::fill(&mut bytes);
        u32::from_le_bytes(bytes)
    });
    format!("{:08x}{:08x}", *PROCESS, NEXT.fetch_add(1, Ordering::Relaxed)).into()
}

/// Why a request is no gRPC call: browsers send some methods and content types for any page, with
/// the user's client certificate.
fn refusal(method: &Method, headers: &HeaderMap) -> Option<StatusCode> {
    if method != Method::POST {
        return Some(StatusCode::NOT_FOUND);
    }
    let content_type = headers.get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    match content_type.strip_prefix(b"application/grpc") {
        Some([] | [b'+' | b';', ..]) => None,
        _ => Some(StatusCode::UNSUPPORTED_MEDIA_TYPE),
    }
}

/// Answers what is not a gRPC call with an HTTP status. Adds a [`RequestId`] to each call, and its
/// id to the response.
#[derive(Clone)]
pub struct RequestIdService<S> {
    pub inner: S,
}

impl<S> Service<Request<Body>> for RequestIdService<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if let Some(peer) = Peer::of(request.extensions()) {
            peer.backlog.begin();
        }
        if let Some(status) = refusal(request.method(), request.headers()) {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = status;
            return Box::pin(async { Ok(response) });
        }
        let request_id = RequestId::of(request.headers());
        let header = HeaderValue::from_str(&request_id.id);
        request.extensions_mut().insert(request_id);
        let answer = self.inner.call(request);
        Box::pin(async move {
            let mut response = answer.await?;
            if let Ok(header) = header {
                response.headers_mut().insert(REQUEST_ID_METADATA, header);
            }
            Ok(response)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request_id(headers: &[(&'static str, &str)]) -> RequestId {
        let headers = headers.iter().map(|(name, value)| {
            let value = HeaderValue::from_str(value).unwrap();
            (name.parse().unwrap(), value)
        });
        RequestId::of(&headers.collect())
    }

    #[test]
    fn requests_that_browsers_send_without_asking_are_refused() {
        let refused = |method: Method, content_type: Option<&str>| {
            let header = |text| (CONTENT_TYPE, HeaderValue::from_str(text).unwrap());
            refusal(&method, &content_type.map(header).into_iter().collect())
        };
        for content_type in [
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=application/grpc",
            "text/plain",
            "text/plain;charset=UTF-8, application/grpc",
            "application/grpc-web",
            "application/grpcx",
            "",
        ] {
            let status = refused(Method::POST, Some(content_type));
            assert_eq!(status, Some(StatusCode::UNSUPPORTED_MEDIA_TYPE), "{content_type}");
        }
        assert_eq!(refused(Method::POST, None), Some(StatusCode::UNSUPPORTED_MEDIA_TYPE));
        for method in [Method::GET, Method::HEAD, Method::OPTIONS, Method::PUT] {
            let status = refused(method, Some("application/grpc"));
            assert_eq!(status, Some(StatusCode::NOT_FOUND));
        }
        for content_type in ["application/grpc", "application/grpc+proto", "application/grpc;a=b"] {
            assert_eq!(refused(Method::POST, Some(content_type)), None, "{content_type}");
        }
    }

    #[test]
    fn a_plain_id_of_the_caller_is_used_and_others_are_replaced() {
        let id = |text: &str| request_id(&[("x-request-id", text)]).id;
        assert_eq!(&*id("Job-7_a.b"), "Job-7_a.b");
        let long = "i".repeat(ID_BYTES_MAX + 1);
        let new = [id(""), id("a b"), id("a\"b"), id(&long), request_id(&[]).id];
        for (index, id) in new.iter().enumerate() {
            assert!(id.len() == 16 && is_id(id), "{id}");
            assert!(!new[..index].contains(id), "{id} twice");
        }
    }

    #[test]
    fn a_valid_trace_parent_names_the_trace() {
        let trace = |text: &str| request_id(&[("traceparent", text)]).trace;
        let id = "4bf92f3577b34da6a3ce929d0e0e4736";
        let valid = trace(&format!("00-{id}-00f067aa0ba902b7-01"));
        assert_eq!(valid.map(|parent| parent.trace_id.to_string()).as_deref(), Some(id));
        assert_eq!(trace(""), None);
    }
}
