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
    error::Error,
    identity::Caller,
    jobs::{AdmissionPermit, Budget, admit, admit_small, merge_permits},
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
pub enum CallBudgets {
    /// The budgets of the connection, unless a proxy shares it, of the tenant and of the server.
    OfTenant {
        connection: Option<Budget>,
        tenant: Arc<Tenant>,
        server: Budget,
        /// Whether the server has other tenants.
        has_others: bool,
    },
    /// A call that needs no credentials: all of these together have a small budget.
    OfStrangers(Budget),
}

impl CallBudgets {
    pub fn of(extensions: &Extensions, state: &ServerState) -> Self {
        let Some(tenant) = extensions.get::<Arc<Tenant>>().cloned() else {
            return Self::OfStrangers(state.strangers.clone());
        };
        let is_proxied = extensions.get::<Caller>().is_some_and(Caller::is_proxied);
        let connection = Peer::of(extensions).filter(|_| !is_proxied);
        let connection = connection.map(|peer| peer.budget.clone());
        let (server, has_others) = (state.budget.clone(), state.tenants.are_several());
        Self::OfTenant { connection, tenant, server, has_others }
    }

    pub fn all(&self) -> Vec<Budget> {
        match self {
            Self::OfTenant { connection, tenant, server, .. } => {
                let of_connection = connection.iter().cloned();
                of_connection.chain([Budget::tenant(tenant), server.clone()]).collect()
            }
            Self::OfStrangers(budget) => vec![budget.clone()],
        }
    }

    /// Takes `bytes` for a message of which `bytes_total` have arrived. A small message may exceed
    /// the budgets a little, unless the tenant holds more than its share of the server's.
    ///
    /// Errors: `Exhausted`; `TenantUnknown` for a large message of a caller who is not known.
    fn admit(&self, bytes: u64, bytes_total: u64) -> Result<AdmissionPermit, Error> {
        let all = self.all();
        let budgets: Vec<_> = all.iter().collect();
        let permit = match self {
            Self::OfStrangers(_) if bytes_total > SMALL_MESSAGE_BYTES => Err(Error::TenantUnknown),
            Self::OfTenant { tenant, server, has_others, .. }
                if bytes_total <= SMALL_MESSAGE_BYTES =>
            {
                let own = tenant.bytes.used();
                let share = match server.bytes.is_large_holder(own) {
                    true => server.bytes.check_share(own, bytes, *has_others),
                    false => Ok(()),
                };
                share.and_then(|()| admit_small(&budgets, bytes))
            }
            _ => admit(&budgets, bytes, 0),
        };
        permit.inspect_err(telemetry::count_refusal)
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
