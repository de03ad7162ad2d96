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

use crate::grpc::{
    calls::{call::SMALL_MESSAGE_BYTES, call_memory::CallMemory, status::status_of},
    connections::{
        connection::Peer,
        pace::{MinRate, SenderPace},
    },
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
    memory: CallMemory,
    /// Whether the server has other tenants.
    has_others: bool,
    /// Operators get in whatever others hold. Those behind a proxy are not known by their peer.
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
        let memory = match tenant {
            Some(_) => {
                let source = own_peer.map(|peer| peer.source.calls.clone());
                state.open_calls.for_call(is_remote, source)
            }
            // Those behind a proxy count as its own: none of them is known.
            None => {
                let source = peer.map(|peer| peer.source.health_checks.clone());
                state.health_checks.for_call(is_remote, source)
            }
        };
        let of_server = match &tenant {
            Some(tenant) => vec![tenant.bytes.clone(), state.budget.bytes.clone()],
            None => memory.quotas().cloned().collect(),
        };
        Self {
            quotas: of_connection.into_iter().chain(of_server).collect(),
            tenant,
            server: state.budget.bytes.clone(),
            memory,
            has_others: state.tenants.are_several(),
            is_operator: own_peer.is_some_and(|it| is_operator(it, request.uri().path(), state)),
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
            _ if self.is_operator && self.memory.source_holds_little() => {
                Ok(self.memory.charge(bytes))
            }
            Some(tenant) => self.admit_call_of(tenant, bytes),
            None => self.admit_share(bytes),
        };
        permit.inspect_err(telemetry::count_refusal)
    }

    /// Leaves memory to the calls of other tenants, of other addresses and users, and of this host.
    ///
    /// Errors: `Exhausted`.
    fn admit_call_of(&self, tenant: &Tenant, bytes: u64) -> Result<AdmissionPermit, Error> {
        self.memory.check_share(tenant.call_bytes.used(), bytes, self.has_others)?;
        self.memory.check_share_of_source(bytes)?;
        let quotas = self.memory.quotas().chain([&tenant.call_bytes]);
        Ok(quotas.map(|quota| quota.acquire(bytes)).collect::<Result<_, _>>()?)
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

    /// Takes `bytes`, of which a tenant may have its share, or a health check that of its address
    /// or local user.
    ///
    /// Errors: `Exhausted`.
    pub fn admit_share(&self, bytes: u64) -> Result<AdmissionPermit, Error> {
        match &self.tenant {
            Some(tenant) => {
                self.server.check_share(tenant.bytes.used(), bytes, self.has_others)?;
            }
            None => self.memory.check_share_of_source(bytes)?,
        }
        Ok(self.quotas.iter().map(|quota| quota.acquire(bytes)).collect::<Result<_, _>>()?)
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
    let permits = AdmissionPermit::new();
    let bytes_total = 0;
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
                    return Poll::Ready(Some(Err(status_of(error))));
                }
            }
        }
        if let Poll::Ready(Some(Ok(frame))) = &frame
            && let Some(data) = frame.data_ref()
            && let Err(error) = self.admit_bytes(data.len() as u64)
        {
            return Poll::Ready(Some(Err(status_of(error))));
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
        grpc::calls::call_memory::CallMemoryPool,
        tenant::{TenantId, TenantLimits, TenantName},
    };

    const CALLS_MAX: u64 = 64;

    fn tenant() -> Arc<Tenant> {
        let limits = TenantLimits::default();
        Tenant::new(TenantId::default(), TenantName::default(), &limits).into()
    }

    struct Memory(CallMemoryPool);

    impl Memory {
        fn new() -> Self {
            Self(CallMemoryPool::new(Limit::OpenCalls, CALLS_MAX * CALL_BYTES as u64))
        }

        /// Opens calls of another address until one is refused.
        fn open_remote(&self, tenant: &Arc<Tenant>, has_others: bool) -> Vec<AdmissionPermit> {
            self.open(Some(tenant), has_others, true, false)
        }

        /// Opens calls of another local user until one is refused.
        fn open_local(&self, tenant: &Arc<Tenant>, is_operator: bool) -> Vec<AdmissionPermit> {
            self.open(Some(tenant), false, false, is_operator)
        }

        /// Opens health checks of another address or local user until one is refused.
        fn open_health_checks(&self, is_remote: bool) -> Vec<AdmissionPermit> {
            self.open(None, false, is_remote, false)
        }

        fn open(
            &self,
            tenant: Option<&Arc<Tenant>>,
            has_others: bool,
            is_remote: bool,
            is_operator: bool,
        ) -> Vec<AdmissionPermit> {
            let source = Quota::new(Limit::OpenCalls, u64::MAX);
            let memory = self.0.for_call(is_remote, Some(source));
            let quotas = memory.quotas().filter(|_| tenant.is_none()).cloned().collect();
            let tenant = tenant.cloned();
            let server = Quota::new(Limit::BytesInFlight, 0);
            let budgets = CallBudgets { quotas, tenant, server, memory, has_others, is_operator };
            std::iter::from_fn(|| budgets.admit_call(&HeaderMap::new()).ok()).collect()
        }
    }

    #[test]
    fn open_calls_of_a_tenant_and_of_an_address_leave_room_to_others() {
        let memory = Memory::new();
        let one = tenant();
        let two = tenant();
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
        assert_eq!(memory.0.used(), 0);
    }

    #[test]
    fn however_many_addresses_open_calls_this_host_and_operators_get_in() {
        let memory = Memory::new();
        let one = tenant();
        let remote: Vec<_> = (0..300).flat_map(|_| memory.open_remote(&one, false)).collect();
        assert_eq!(remote.len(), 60);
        let local: Vec<_> = (0..300).flat_map(|_| memory.open_local(&one, false)).collect();
        assert_eq!(local.len(), 4);
        assert!(!memory.open_local(&one, true).is_empty());
        drop((remote, local));
        assert_eq!(memory.0.used(), 0);
    }

    #[test]
    fn whoever_opens_health_checks_leaves_room_to_others() {
        let memory = Memory::new();
        for is_remote in [true, false] {
            let alone = memory.open_health_checks(is_remote);
            assert!(alone.len() > CALLS_MAX as usize / 2, "{}", alone.len());
            for other in [true, false] {
                assert!(!memory.open_health_checks(other).is_empty(), "{is_remote} {other}");
            }
        }
        let crowd: Vec<_> = (0..300).flat_map(|_| memory.open_health_checks(true)).collect();
        assert_eq!(crowd.len(), 60, "a sixteenth is left to this host");
        assert!(!memory.open_health_checks(false).is_empty());
        drop(crowd);
        assert_eq!(memory.0.used(), 0);
    }
}
