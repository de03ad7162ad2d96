//! The body of a unary request. tonic receives all of it before it calls a handler, so the body
//! itself enforces the idle timeout, and takes budget for the message. Budgets of every call.

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

/// Memory of an open call, besides messages and metadata.
const CALL_BYTES: usize = 8 << 10;
/// Memory of a header field, besides its name and value.
const FIELD_BYTES: usize = 256;

/// A body that fails with `Idle` if its sender is too slow, and with `Exhausted` if the budgets are
/// full. Its permits are released when the handler begins, which takes its own.
struct LimitedBody {
    body: Body,
    budgets: CallBudgets,
    permits: AdmissionPermit,
    bytes_total: u64,
    pace: SenderPace,
}

/// What a call takes bytes from, apart from payload and working memory.
#[derive(Clone)]
pub struct CallBudgets {
    /// Of the connection, unless a proxy shares it, of the tenant and of the server. Calls that
    /// need no credentials, which are health checks, have other limits.
    pub quotas: Vec<Arc<Quota>>,
    /// `None` for a call that needs no credentials.
    pub tenant: Option<Arc<Tenant>>,
    server: Arc<Quota>,
    /// Memory of the open calls of all tenants.
    open_calls: Arc<Quota>,
    /// That of the connection's calls, unless a proxy shares it.
    calls_of_connection: Option<Arc<Quota>>,
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
        let own_peer = peer.filter(|_| !is_proxied);
        let of_connection = own_peer.map(|peer| match tenant {
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
            open_calls: state.open_calls.clone(),
            calls_of_connection: own_peer.map(|peer| peer.call_bytes.clone()),
            has_others: state.tenants.are_several(),
            is_admin: peer.is_some_and(|peer| peer.is_admin),
        }
    }

    /// Takes the memory of an open call with metadata `headers`.
    ///
    /// Errors: `Exhausted`.
    pub fn admit_call(&self, headers: &HeaderMap) -> Result<AdmissionPermit, Error> {
        let field = |(name, value): (&HeaderName, &HeaderValue)| {
            name.as_str().len() + value.len() + FIELD_BYTES
        };
        let bytes = (CALL_BYTES + headers.iter().map(field).sum::<usize>()) as u64;
        let permit = match &self.tenant {
            Some(_) if self.is_admin => Ok(AdmissionPermit::new()),
            Some(tenant) => self.admit_call_of(tenant, bytes),
            None => self.quotas.iter().map(|quota| quota.acquire(bytes)).collect(),
        };
        permit.inspect_err(telemetry::count_refusal)
    }

    /// Leaves memory to the calls of other tenants and of other connections.
    ///
    /// Errors: `Exhausted`.
    fn admit_call_of(&self, tenant: &Tenant, bytes: u64) -> Result<AdmissionPermit, Error> {
        let (all, of_connection) = (&self.open_calls, self.calls_of_connection.as_ref());
        all.check_share(tenant.call_bytes.used(), bytes, self.has_others)?;
        of_connection.map_or(Ok(()), |own| all.check_share(own.used(), bytes, true))?;
        let quotas = [all, &tenant.call_bytes].into_iter().chain(of_connection);
        quotas.map(|quota| quota.acquire(bytes)).collect()
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

/// Wraps the body so that it takes from `budgets`.
pub fn limit_body(
    request: Request<Body>,
    budgets: CallBudgets,
    state: &ServerState,
) -> Request<Body> {
    let pace = SenderPace::new(MinRate::of(&state.settings));
    let (permits, bytes_total) = (AdmissionPermit::new(), 0);
    request.map(|body| Body::new(LimitedBody { body, budgets, permits, bytes_total, pace }))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        error::Limit,
        tenant::{TenantId, TenantLimits, TenantName},
    };

    const CALLS_MAX: u64 = 64;

    fn tenant() -> Arc<Tenant> {
        let limits = TenantLimits::default();
        Tenant::new(TenantId::default(), TenantName::default(), &limits).into()
    }

    struct Connection<'a> {
        all: &'a Arc<Quota>,
        of_tenant: &'a Arc<Tenant>,
        own: Arc<Quota>,
        has_others: bool,
    }

    impl<'a> Connection<'a> {
        fn new(all: &'a Arc<Quota>, of_tenant: &'a Arc<Tenant>, has_others: bool) -> Self {
            Self { all, of_tenant, own: Quota::new(Limit::OpenCalls, u64::MAX), has_others }
        }

        /// Opens calls until one is refused.
        fn open_all(&self) -> Vec<AdmissionPermit> {
            let budgets = CallBudgets {
                quotas: Vec::new(),
                tenant: Some(self.of_tenant.clone()),
                server: self.of_tenant.bytes.clone(),
                open_calls: self.all.clone(),
                calls_of_connection: Some(self.own.clone()),
                has_others: self.has_others,
                is_admin: false,
            };
            std::iter::from_fn(|| budgets.admit_call(&HeaderMap::new()).ok()).collect()
        }
    }

    #[test]
    fn open_calls_of_a_tenant_and_of_a_connection_leave_room_to_others() {
        let all = Quota::new(Limit::OpenCalls, CALLS_MAX * CALL_BYTES as u64);
        let (one, two) = (tenant(), tenant());
        let first = Connection::new(&all, &one, true).open_all();
        assert_eq!(first.len(), 60, "a sixteenth is left");
        assert!(Connection::new(&all, &one, true).open_all().is_empty());
        assert!(!Connection::new(&all, &two, true).open_all().is_empty());
        drop(first);
        assert_eq!(all.used(), 0);
        // Without other tenants, connections share.
        let first = Connection::new(&all, &one, false).open_all();
        assert_eq!(first.len(), 60);
        assert!(!Connection::new(&all, &one, false).open_all().is_empty());
    }
}
