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
    call::SMALL_MESSAGE_BYTES,
    connection::Peer,
    pace::{MinRate, SenderPace},
    state::ServerState,
};
use crate::{
    buffer::Quota,
    error::Error,
    identity::Caller,
    jobs::{AdmissionPermit, admit_small, charge, merge_permits},
    telemetry,
    tenant::Tenant,
};

/// Bytes of a header in addition to its name and value, as HTTP/2 counts them.
const HEADER_BYTES: usize = 32;

/// A body that fails with `Idle` if its sender is too slow, and with `Exhausted` if the budgets are
/// full. Its permits are released when the handler begins, which takes its own.
struct LimitedBody {
    body: Body,
    budgets: CallBudgets,
    permits: AdmissionPermit,
    bytes_total: u64,
    pace: SenderPace,
}

/// What a call takes bytes from before its handler runs.
#[derive(Clone)]
pub struct CallBudgets {
    /// Of the connection, unless a proxy shares it, of the tenant and of the server. Calls that
    /// need no credentials, which are health checks, have other limits.
    pub quotas: Vec<Arc<Quota>>,
    /// `None` for a call that needs no credentials.
    pub tenant: Option<Arc<Tenant>>,
    server: Arc<Quota>,
    /// Whether the server has other tenants.
    has_others: bool,
    /// Operators get in whatever others hold.
    is_admin: bool,
}

impl CallBudgets {
    pub fn of(extensions: &Extensions, state: &ServerState) -> Self {
        let tenant = extensions.get::<Arc<Tenant>>().cloned();
        let is_proxied = extensions.get::<Caller>().is_some_and(Caller::is_proxied);
        let peer = Peer::of(extensions);
        let of_connection = peer.filter(|_| !is_proxied).map(|peer| match tenant {
            Some(_) => peer.budget.bytes.clone(),
            None => peer.probe_bytes.clone(),
        });
        let of_server = match &tenant {
            Some(tenant) => vec![tenant.bytes.clone(), state.budget.bytes.clone()],
            None => vec![state.probe_bytes.clone()],
        };
        Self {
            quotas: of_connection.into_iter().chain(of_server).collect(),
            tenant,
            server: state.budget.bytes.clone(),
            has_others: state.tenants.are_several(),
            is_admin: peer.is_some_and(|peer| peer.is_admin),
        }
    }

    /// Takes `bytes` for a message of which `bytes_total` have arrived.
    ///
    /// Errors: `Exhausted`; `TenantUnknown` for a large message of a caller who is not known.
    fn admit(&self, bytes: u64, bytes_total: u64) -> Result<AdmissionPermit, Error> {
        let is_small = bytes_total <= SMALL_MESSAGE_BYTES;
        let permit = match &self.tenant {
            _ if is_small && self.is_admin => Ok(charge(&self.quotas, bytes)),
            Some(tenant) if is_small => admit_small(tenant, &self.quotas, bytes),
            None if !is_small => Err(Error::TenantUnknown),
            _ => self.admit_share(bytes),
        };
        permit.inspect_err(telemetry::count_refusal)
    }

    /// Takes `bytes`, of which a tenant may have its share.
    ///
    /// Errors: `Exhausted`.
    pub fn admit_share(&self, bytes: u64) -> Result<AdmissionPermit, Error> {
        if let Some(tenant) = &self.tenant {
            self.server.check_share(tenant.bytes.used(), bytes, self.has_others)?;
        }
        self.quotas.iter().map(|quota| quota.acquire(bytes)).collect()
    }
}

/// Wraps the body so that it takes from `budgets`. The metadata is counted until the handler
/// begins.
///
/// Errors: those of the budgets.
pub fn limit_body(
    request: Request<Body>,
    budgets: CallBudgets,
    state: &ServerState,
) -> Result<Request<Body>, Error> {
    let permits = budgets.admit(metadata_bytes(request.headers()), 0)?;
    let pace = SenderPace::new(MinRate::of(&state.settings));
    let limited = |body| LimitedBody { body, budgets, permits, bytes_total: 0, pace };
    Ok(request.map(|body| Body::new(limited(body))))
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
        let permit = self.budgets.admit(bytes, self.bytes_total)?;
        // One permit, however many frames there are.
        merge_permits(&mut self.permits, permit);
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
