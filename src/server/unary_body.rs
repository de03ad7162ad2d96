//! The body of a unary request. tonic receives all of it before it calls a handler, so the body
//! itself enforces the idle timeout and takes budget for large messages.

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
    codegen::http::{Extensions, Request},
};

use super::{
    call::UNCOUNTED_BYTES,
    connection::Peer,
    pace::{MinRate, SenderPace},
    state::ServerState,
};
use crate::{
    error::Error,
    identity::Caller,
    jobs::{AdmissionPermit, Budget, admit},
    telemetry,
    tenant::Tenant,
};

/// A body that fails with `Idle` if its sender is too slow, and with `Exhausted` if the budgets are
/// full. Its permits are released when the handler begins, which takes its own.
struct LimitedBody {
    body: Body,
    state: Arc<ServerState>,
    /// Of the connection and of the tenant; none for a call that needs no credentials.
    budgets: Vec<Budget>,
    /// Whether the caller and its tenant are known. Others may only send what needs no budget.
    is_known: bool,
    permits: Vec<AdmissionPermit>,
    bytes_total: u64,
    pace: SenderPace,
}

/// The budgets of a request's connection and tenant; none if its caller is not known.
pub fn own_budgets(extensions: &Extensions) -> Vec<Budget> {
    let is_proxied = extensions.get::<Caller>().is_some_and(Caller::is_proxied);
    match (Peer::of(extensions), extensions.get::<Arc<Tenant>>()) {
        (Some(_), Some(tenant)) if is_proxied => vec![Budget::tenant(tenant)],
        (Some(peer), Some(tenant)) => vec![peer.budget.clone(), Budget::tenant(tenant)],
        _ => Vec::new(),
    }
}

pub fn limit_body(request: Request<Body>, state: &Arc<ServerState>) -> Request<Body> {
    let is_known = request.extensions().get::<Arc<Tenant>>().is_some();
    let budgets = own_budgets(request.extensions());
    let state = state.clone();
    let pace = SenderPace::new(MinRate::of(&state.settings));
    request.map(|body| {
        let (permits, bytes_total) = Default::default();
        Body::new(LimitedBody { body, state, is_known, budgets, permits, bytes_total, pace })
    })
}

impl LimitedBody {
    fn admit_bytes(&mut self, bytes: u64) -> Result<(), Error> {
        self.pace.count_wait();
        self.pace.sent(bytes);
        self.bytes_total += bytes;
        if self.bytes_total > UNCOUNTED_BYTES {
            if !self.is_known {
                return Err(Error::TenantUnknown);
            }
            let own = self.budgets.iter();
            let budgets: Vec<_> = own.chain([&self.state.budget]).collect();
            let permit = admit(&budgets, bytes, 0);
            self.permits.push(permit.inspect_err(telemetry::count_refusal)?);
        }
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
