//! A layer that gives each call an id, which logs, spans and responses carry.

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
    codegen::http::{HeaderMap, HeaderValue, Request, Response},
};
use tower::Service;

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

/// Adds a [`RequestId`] to each request, and its id to the response.
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
