//! The body of a unary request. tonic receives all of it before it calls a handler, so the body
//! itself enforces the idle timeout, and takes budget for the message and the metadata.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tonic::{
    Status,
    body::Body,
    codegen::http::{Extensions, HeaderMap, HeaderName, HeaderValue, Request},
};

use super::{
    call::UNREFUSED_BYTES,
    connection::Peer,
    pace::{MinRate, SenderPace},
    state::ServerState,
};
use crate::{
    error::Error,
    identity::Caller,
    jobs::{AdmissionPermit, Budget, admit, charge},
    telemetry,
    tenant::Tenant,
};

/// Bytes of a header beside its name and value, as HTTP/2 counts them.
const HEADER_BYTES: usize = 32;

/// A body that fails with `Idle` if its sender is too slow, and with `Exhausted` if the budgets are
/// full. Its permits are released when the handler begins, which takes its own.
struct LimitedBody {
    body: Body,
    budgets: Vec<Budget>,
    /// Whether the caller and its tenant are known. Others may only send what is never refused.
    is_known: bool,
    permits: Vec<AdmissionPermit>,
    bytes_total: u64,
    pace: SenderPace,
}

/// The budgets of a request's connection, tenant and server. The tenant of a call that needs no
/// credentials is not known, and callers behind a proxy share its connection.
pub fn budgets_of(extensions: &Extensions, state: &ServerState) -> Vec<Budget> {
    let is_proxied = extensions.get::<Caller>().is_some_and(Caller::is_proxied);
    let of_connection = Peer::of(extensions).filter(|_| !is_proxied).map(|peer| &peer.budget);
    let of_tenant = extensions.get::<Arc<Tenant>>().map(|tenant| Budget::tenant(tenant));
    of_connection.cloned().into_iter().chain(of_tenant).chain([state.budget.clone()]).collect()
}

/// The request with a body that takes from `budgets`, and its metadata until the handler begins.
pub fn limit_body(
    request: Request<Body>,
    budgets: Vec<Budget>,
    state: &ServerState,
) -> Request<Body> {
    let is_known = request.extensions().get::<Arc<Tenant>>().is_some();
    let metadata = charge(&budgets.iter().collect::<Vec<_>>(), metadata_bytes(request.headers()));
    let pace = SenderPace::new(MinRate::of(&state.settings));
    request.map(|body| {
        let (permits, bytes_total) = (vec![metadata], 0);
        Body::new(LimitedBody { body, is_known, budgets, permits, bytes_total, pace })
    })
}

fn metadata_bytes(headers: &HeaderMap) -> u64 {
    let bytes = |(name, value): (&HeaderName, &HeaderValue)| {
        name.as_str().len() + value.len() + HEADER_BYTES
    };
    headers.iter().map(bytes).sum::<usize>() as u64
}

impl LimitedBody {
    fn admit_bytes(&mut self, bytes: u64) -> Result<(), Error> {
        self.pace.count_wait();
        self.pace.sent(bytes);
        self.bytes_total += bytes;
        let budgets: Vec<_> = self.budgets.iter().collect();
        let permit = if self.bytes_total <= UNREFUSED_BYTES {
            charge(&budgets, bytes)
        } else if self.is_known {
            admit(&budgets, bytes, 0).inspect_err(telemetry::count_refusal)?
        } else {
            return Err(Error::TenantUnknown);
        };
        self.permits.push(permit);
        Ok(())
    }
}

impl http_body::Body for LimitedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if frame.is_pending() {
            loop {
                ready!(self.pace.timer().poll(context));
                if let Err(error) = self.pace.check(0) {
                    return Poll::Ready(Some(Err(error.into())));
                }
            }
        }
        if let Poll::Ready(Some(Ok(frame))) = &frame
            && let Some(data) = frame.data_ref()
            && let Err(error) = self.admit_bytes(data.len() as u64)
        {
            return Poll::Ready(Some(Err(error.into())));
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
