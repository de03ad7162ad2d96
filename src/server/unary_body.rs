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
    codegen::http::{HeaderMap, HeaderName, HeaderValue, Request},
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

/// Path prefix of the calls of operators.
const ADMIN_PATH_PREFIX: &str = "/capstan.v1.Admin/";
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
    /// That of calls from the same address or local user, unless a proxy makes them for others.
    calls_of_source: Option<Arc<Quota>>,
    /// That of the open calls over TCP, if this is one: less, so that the Unix socket keeps a part.
    remote_calls: Option<Arc<Quota>>,
    /// Whether the server has other tenants.
    has_others: bool,
    /// Operators get in whatever others hold.
    is_operator: bool,
}

impl CallBudgets {
    pub fn of<B>(request: &Request<B>, state: &ServerState) -> Self {
        let extensions = request.extensions();
        let tenant = extensions.get::<Arc<Tenant>>().cloned();
        let peer = Peer::of(extensions);
        let own_peer = peer.filter(|peer| match extensions.get::<Caller>() {
            Some(caller) => !caller.is_proxied(),
            None => !state.credentials.may_be_shared(peer),
        });
        let is_remote = peer.is_none_or(|peer| peer.local_user.is_none());
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
            calls_of_source: own_peer.map(|peer| peer.call_bytes.clone()),
            has_others: state.tenants.are_several(),
            remote_calls: is_remote.then(|| state.remote_calls.clone()),
            is_operator: peer.is_some_and(|peer| is_operator(peer, request.uri().path(), state)),
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
            _ if self.is_operator && self.holds_little() => Ok(self.charge_call(bytes)),
            Some(tenant) => self.admit_call_of(tenant, bytes),
            None => self.admit_probe(bytes),
        };
        permit.inspect_err(telemetry::count_refusal)
    }

    /// Leaves memory to the health checks of this host.
    ///
    /// Errors: `Exhausted`.
    fn admit_probe(&self, bytes: u64) -> Result<AdmissionPermit, Error> {
        if let Some(all) = self.quotas.last().filter(|_| self.remote_calls.is_some()) {
            all.check_reserve(bytes)?;
        }
        self.quotas.iter().map(|quota| quota.acquire(bytes)).collect()
    }

    /// Whether the open calls from the same address or local user have at most a sixteenth of the
    /// memory.
    fn holds_little(&self) -> bool {
        let own = self.calls_of_source.as_ref().map_or(0, |own| own.used());
        own <= self.open_calls.reserve()
    }

    fn charge_call(&self, bytes: u64) -> AdmissionPermit {
        let quotas: Vec<_> =
            [&self.open_calls].into_iter().chain(&self.calls_of_source).cloned().collect();
        charge(&quotas, bytes)
    }

    /// Leaves memory to the calls of other tenants, of other addresses and users, and of this host.
    ///
    /// Errors: `Exhausted`.
    fn admit_call_of(&self, tenant: &Tenant, bytes: u64) -> Result<AdmissionPermit, Error> {
        let Self { open_calls, remote_calls, calls_of_source, has_others, .. } = self;
        let shared = remote_calls.as_ref().unwrap_or(open_calls);
        shared.check_share(tenant.call_bytes.used(), bytes, *has_others)?;
        calls_of_source
            .as_ref()
            .map_or(Ok(()), |own| shared.check_share(own.used(), bytes, true))?;
        let quotas = [open_calls, &tenant.call_bytes].into_iter();
        let quotas = quotas.chain(remote_calls).chain(calls_of_source);
        quotas.map(|quota| quota.acquire(bytes)).collect()
    }

    /// Takes `bytes` for a message of which `bytes_total` have arrived.
    ///
    /// Errors: `Exhausted`; `TenantUnknown` for a large message of a caller who is not known.
    fn admit(&self, bytes: u64, bytes_total: u64) -> Result<AdmissionPermit, Error> {
        let is_small = bytes_total <= SMALL_MESSAGE_BYTES;
        let permit = match &self.tenant {
            _ if is_small && self.is_operator => Ok(charge(&self.quotas, bytes)),
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

/// Whether the call is an operator's: any on the administrative socket. If there is none, those of
/// the service `Admin` over the Unix socket.
fn is_operator(peer: &Peer, path: &str, state: &ServerState) -> bool {
    let is_local = peer.local_user.is_some() && state.settings.admin_socket.is_none();
    peer.is_admin || is_local && path.starts_with(ADMIN_PATH_PREFIX)
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

    /// The memory of all open calls, and of those over TCP.
    struct Memory {
        all: Arc<Quota>,
        remote: Arc<Quota>,
    }

    impl Memory {
        fn new() -> Self {
            let all = Quota::new(Limit::OpenCalls, CALLS_MAX * CALL_BYTES as u64);
            let remote = Quota::new(Limit::OpenCalls, all.max() - all.reserve());
            Self { all, remote }
        }

        /// Opens calls of another address until one is refused.
        fn open_remote(&self, tenant: &Arc<Tenant>, has_others: bool) -> Vec<AdmissionPermit> {
            self.open(tenant, has_others, Some(self.remote.clone()), false)
        }

        /// Opens calls of another local user until one is refused.
        fn open_local(&self, tenant: &Arc<Tenant>, is_operator: bool) -> Vec<AdmissionPermit> {
            self.open(tenant, false, None, is_operator)
        }

        fn open(
            &self,
            tenant: &Arc<Tenant>,
            has_others: bool,
            remote_calls: Option<Arc<Quota>>,
            is_operator: bool,
        ) -> Vec<AdmissionPermit> {
            let budgets = CallBudgets {
                quotas: Vec::new(),
                tenant: Some(tenant.clone()),
                server: tenant.bytes.clone(),
                open_calls: self.all.clone(),
                calls_of_source: Some(Quota::new(Limit::OpenCalls, u64::MAX)),
                remote_calls,
                has_others,
                is_operator,
            };
            std::iter::from_fn(|| budgets.admit_call(&HeaderMap::new()).ok()).collect()
        }
    }

    #[test]
    fn open_calls_of_a_tenant_and_of_an_address_leave_room_to_others() {
        let (memory, one, two) = (Memory::new(), tenant(), tenant());
        let first = memory.open_local(&one, false);
        assert_eq!(first.len(), 60, "a sixteenth is left");
        assert!(!memory.open_local(&two, false).is_empty());
        drop(first);
        let first: Vec<_> = (0..9).flat_map(|_| memory.open_remote(&one, true)).collect();
        assert_eq!(first.len(), 56, "a sixteenth of what TCP may take is left");
        assert!(!memory.open_remote(&two, true).is_empty());
        drop(first);
        // Without other tenants, addresses share.
        let first = memory.open_remote(&one, false);
        assert_eq!(first.len(), 56);
        assert!(!memory.open_remote(&one, false).is_empty());
        drop(first);
        assert_eq!((memory.all.used(), memory.remote.used()), (0, 0));
    }

    #[test]
    fn however_many_addresses_open_calls_this_host_and_operators_get_in() {
        let (memory, one) = (Memory::new(), tenant());
        let remote: Vec<_> = (0..300).flat_map(|_| memory.open_remote(&one, false)).collect();
        assert_eq!(remote.len(), 60);
        let local: Vec<_> = (0..300).flat_map(|_| memory.open_local(&one, false)).collect();
        assert_eq!(local.len(), 4);
        assert!(!memory.open_local(&one, true).is_empty());
        drop((remote, local));
        assert_eq!(memory.all.used(), 0);
    }
}
