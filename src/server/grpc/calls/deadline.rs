//! A layer that enforces deadlines and tracks calls until the last byte of their responses. tonic
//! enforces deadlines too, but answers CANCELLED: this layer's deadlines are a little earlier and
//! answer DEADLINE_EXCEEDED, also while a message is still arriving.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use tokio::time::timeout_at;
use tonic::{
    body::Body,
    codegen::http::{Extensions, HeaderMap, Request, Response},
};
use tower::Service;

use super::{call::Deadline, status::status_of};
use crate::grpc::{
    connections::{connection::Peer, pace::MinRate},
    drain::TrackedBody,
    operators::reflection,
    requests::{
        streamed_body,
        unary_body::{self, CallBudgets},
    },
    responses::transport_parts::{PartsCost, ResponsePermit, TransportParts},
    state::ServerState,
};
use crate::{error::Error, identity::Caller, telemetry, tenant::Tenant, wire::INSTANCE_HEADER};

/// The maximum time by which a handler's deadline precedes tonic's.
const DEADLINE_MARGIN: Duration = Duration::from_millis(5);

/// Path prefix of the calls that a drain waits for: others, such as watching health, may never end.
const DRAINED_PATH_PREFIX: &str = "/capstan.";

/// Adds a [`Deadline`] to each request that has one, answers if the handler does not in time, times
/// the message of unary calls, and makes a drain wait until responses are sent.
#[derive(Clone)]
pub struct DeadlineService<S> {
    pub inner: S,
    pub state: Arc<ServerState>,
}

impl<S> Service<Request<Body>> for DeadlineService<S>
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

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let begun = Instant::now();
        let refuse = |error: Error| {
            let instance = self.state.instance.clone();
            Box::pin(async {
                let mut refusal = status_of(error).into_http();
                refusal.headers_mut().insert(INSTANCE_HEADER, instance);
                Ok(refusal)
            })
        };
        let wanted = request.headers().get(INSTANCE_HEADER);
        if wanted.is_some_and(|wanted| *wanted != self.state.instance) {
            return refuse(Error::OtherServer);
        }
        if let Err(error) = join_tenant(request.extensions()) {
            return refuse(error);
        }
        let budgets = CallBudgets::of(&request, &self.state);
        let memory = match budgets.admit_call(request.headers()) {
            Ok(permit) => permit,
            Err(error) => return refuse(error),
        };
        let reflection = match reflection::admit_response(&request, &budgets, &self.state) {
            Ok(permit) => permit,
            Err(error) => return refuse(error),
        };
        let busy = request
            .uri()
            .path()
            .starts_with(DRAINED_PATH_PREFIX)
            .then(|| self.state.drain.begin_call());
        let peer = Peer::of(request.extensions());
        let open = peer.map(|peer| peer.calls.begin());
        // Callers share the connection of a proxy.
        let is_proxied = request.extensions().get::<Caller>().is_some_and(Caller::is_proxied);
        let is_shared = is_proxied || self.state.settings.shared_connections;
        let connection = peer.filter(|_| !is_shared).map(|peer| peer.calls.clone());
        let state = self.state.clone();
        let charged = budgets.quotas.clone();
        let until_sent = move |mut response: Response<Body>| {
            response.headers_mut().insert(INSTANCE_HEADER, state.instance.clone());
            let permit = response.extensions_mut().remove::<ResponsePermit>().or(reflection);
            let admitted = |_permit| PartsCost::Admitted { _permit };
            let cost = permit.map_or(PartsCost::Charged(charged), admitted);
            let parts = TransportParts::new(cost, connection, MinRate::of(&state.settings));
            response.map(|body| {
                let body = state.unread.add(body, parts);
                Body::new(TrackedBody { body, _call: busy, _open: open, _memory: memory })
            })
        };
        // Handlers of streamed requests time messages themselves.
        let mut request = match streamed_body::is_streamed(&request) {
            true => streamed_body::set_aside(request),
            false => unary_body::limit_body(request, budgets, &self.state),
        };
        let Some(timeout) = timeout_of(request.headers()) else {
            let answer = self.inner.call(request);
            return Box::pin(async move { answer.await.map(until_sent) });
        };
        let margin = DEADLINE_MARGIN.min(timeout / 10);
        request.extensions_mut().insert(Deadline(begun + (timeout - margin)));
        let answer = self.inner.call(request);
        // Between the handler's deadline and tonic's.
        let last = begun + (timeout - margin / 2);
        Box::pin(async move {
            let late = |_| Ok(status_of(Error::DEADLINE).into_http());
            timeout_at(last.into(), answer).await.unwrap_or_else(late).map(until_sent)
        })
    }
}

/// Counts the connection among those of the caller's tenant, if the caller is known.
///
/// Errors: `Exhausted`.
fn join_tenant(extensions: &Extensions) -> Result<(), Error> {
    match (Peer::of(extensions), extensions.get::<Arc<Tenant>>()) {
        (Some(peer), Some(tenant)) => peer.join(tenant).inspect_err(telemetry::count_refusal),
        _ => Ok(()),
    }
}

/// Parses `grpc-timeout`: up to 8 digits and a unit.
fn timeout_of(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = value.split_at_checked(value.len().checked_sub(1)?)?;
    let amount: u64 = digits.parse().ok().filter(|_| digits.len() <= 8)?;
    Some(match unit {
        "H" => Duration::from_secs(amount * 3600),
        "M" => Duration::from_secs(amount * 60),
        "S" => Duration::from_secs(amount),
        "m" => Duration::from_millis(amount),
        "u" => Duration::from_micros(amount),
        "n" => Duration::from_nanos(amount),
        _ => return None,
    })
}
