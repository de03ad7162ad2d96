//! Limits on connections: in total, for TCP, for each address or local user, and for the
//! administrative socket.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;

use crate::settings::ServerSettings;
use crate::{
    buffer::{Quota, QuotaPermit},
    error::{EngineError as Error, EngineResult as Result, Limit},
    telemetry::network,
};

/// The part of all connections that TCP peers cannot take if there is a Unix socket: operators and
/// local clients can always connect.
const RESERVED_DIVISOR: u32 = 16;

/// Connections of the administrative socket, in addition to all others: nobody else can take them.
const ADMIN_MAX: u64 = 16;

pub struct ConnectionLimits {
    all: Arc<Quota>,
    admin: Arc<Quota>,
    tcp: Arc<Quota>,
    sources: Arc<SourceCounts>,
    /// The most that were open at once, since [`Self::has_shrunk_by`] returned true.
    most: AtomicU64,
}

/// Whose connections are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConnectionSource {
    /// An address of TCP peers.
    Address(IpAddr),
    /// A user of the Unix socket.
    User(u32),
}

/// A connection's share of the limits, until it is dropped.
pub struct ConnectionPermit {
    _all_or_admin: QuotaPermit,
    _tcp: Option<QuotaPermit>,
    source: Option<SourcePermit>,
}

/// Memory of the open calls from one address or local user. Only the server has limits.
#[derive(Debug, Clone)]
pub struct SourceMemory {
    pub calls: Arc<Quota>,
    pub health_checks: Arc<Quota>,
}

impl Default for SourceMemory {
    fn default() -> Self {
        Self {
            calls: Quota::new(Limit::OpenCalls, u64::MAX),
            health_checks: Quota::new(Limit::Probes, u64::MAX),
        }
    }
}

/// What each source uses.
struct SourceCounts {
    connections_max: u32,
    open: Mutex<HashMap<ConnectionSource, SourceUse>>,
}

/// What the connections of one source use.
#[derive(Default)]
struct SourceUse {
    connections: u32,
    memory: SourceMemory,
}

struct SourcePermit {
    counts: Arc<SourceCounts>,
    source: ConnectionSource,
    memory: SourceMemory,
}

impl ConnectionLimits {
    pub fn new(settings: &ServerSettings) -> Self {
        let max = settings.connections_max;
        let reserved = match settings.unix_socket {
            Some(_) => (max / RESERVED_DIVISOR).max(1).min(max - 1),
            None => 0,
        };
        let quota = |max: u32| Quota::new(Limit::Connections, max.into());
        let per_source = settings.connections_per_address_max;
        let sources =
            Arc::new(SourceCounts { connections_max: per_source, open: Mutex::default() });
        let admin = Quota::new(Limit::Connections, ADMIN_MAX);
        let most = AtomicU64::new(0);
        Self { all: quota(max), admin, tcp: quota(max - reserved), sources, most }
    }

    /// Open connections, apart from those of the administrative socket.
    pub fn used(&self) -> u64 {
        self.all.used()
    }

    /// Whether `count` more connections were open at once than are open now, since this last
    /// returned true.
    pub fn has_shrunk_by(&self, count: u64) -> bool {
        let used = self.used();
        let has_shrunk = self.most.load(Ordering::Relaxed) >= used + count;
        if has_shrunk {
            self.most.store(used, Ordering::Relaxed);
        }
        has_shrunk
    }

    /// A permit for a connection to the TCP listener or to the Unix socket.
    ///
    /// Errors: `Exhausted`.
    pub fn acquire(&self, source: ConnectionSource) -> Result<ConnectionPermit> {
        let permit = Some(self.sources.acquire(source)?);
        let _tcp = match source {
            ConnectionSource::Address(_) => Some(self.tcp.acquire(1)?),
            ConnectionSource::User(_) => None,
        };
        let _all_or_admin = self.all.acquire(1)?;
        self.most.fetch_max(self.used(), Ordering::Relaxed);
        Ok(ConnectionPermit { _all_or_admin, _tcp, source: permit })
    }

    /// A permit for a connection to the administrative socket.
    ///
    /// Errors: `Exhausted`.
    pub fn acquire_admin(&self) -> Result<ConnectionPermit> {
        let _all_or_admin = self.admin.acquire(1)?;
        Ok(ConnectionPermit { _all_or_admin, _tcp: None, source: None })
    }
}

impl ConnectionPermit {
    /// That of the connection's source; `None` for an operator.
    pub fn source_memory(&self) -> Option<SourceMemory> {
        self.source.as_ref().map(|source| source.memory.clone())
    }
}

impl SourceCounts {
    fn acquire(self: &Arc<Self>, source: ConnectionSource) -> Result<SourcePermit> {
        let source = match source {
            ConnectionSource::Address(address) => ConnectionSource::Address(network(address)),
            user => user,
        };
        let mut open = self.open.lock();
        let held = open.entry(source).or_default();
        if held.connections >= self.connections_max {
            return Err(Error::Exhausted { limit: Limit::Connections, retry_after: None });
        }
        held.connections += 1;
        let memory = held.memory.clone();
        Ok(SourcePermit { counts: self.clone(), source, memory })
    }
}

impl Drop for SourcePermit {
    fn drop(&mut self) {
        let mut open = self.counts.open.lock();
        if let Some(held) = open.get_mut(&self.source) {
            held.connections -= 1;
            if held.connections == 0 {
                open.remove(&self.source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(unix: bool) -> ConnectionLimits {
        ConnectionLimits::new(&ServerSettings {
            connections_max: 4,
            connections_per_address_max: 2,
            unix_socket: unix.then(|| "/run/x".into()),
            ..ServerSettings::default()
        })
    }

    fn tcp(limits: &ConnectionLimits, address: &str) -> Result<ConnectionPermit> {
        limits.acquire(ConnectionSource::Address(address.parse().unwrap()))
    }

    #[test]
    fn one_address_cannot_take_all_connections() {
        let limits = limits(false);
        for [one, same, other] in [
            ["10.0.0.1", "::ffff:10.0.0.1", "10.0.0.2"],
            ["2001:db8::1", "2001:db8::ffff", "2001:db8:0:1::1"],
        ] {
            let held = [tcp(&limits, one).unwrap(), tcp(&limits, same).unwrap()];
            assert!(tcp(&limits, one).is_err() && tcp(&limits, same).is_err());
            assert!(tcp(&limits, other).is_ok());
            drop(held);
            assert!(tcp(&limits, one).is_ok());
        }
        assert_eq!(limits.used(), 0);
        assert!(limits.sources.open.lock().is_empty());
    }

    #[test]
    fn one_local_user_cannot_take_all_connections() {
        let limits = limits(true);
        let user = |id| limits.acquire(ConnectionSource::User(id));
        let held = [user(7).unwrap(), user(7).unwrap()];
        assert!(user(7).is_err());
        assert!(user(8).is_ok());
        drop(held);
        assert!(user(7).is_ok());
    }

    #[test]
    fn tcp_peers_leave_connections_to_the_unix_socket() {
        let limits = limits(true);
        let held: Vec<_> = ["1.1.1.1", "1.1.1.2", "1.1.1.3"]
            .map(|address| tcp(&limits, address).unwrap())
            .into_iter()
            .collect();
        assert!(tcp(&limits, "1.1.1.4").is_err(), "the last one is reserved");
        let local = limits.acquire(ConnectionSource::User(7)).unwrap();
        assert!(limits.acquire(ConnectionSource::User(7)).is_err());
        let operators: Vec<_> = (0..ADMIN_MAX).map(|_| limits.acquire_admin().unwrap()).collect();
        assert!(limits.acquire_admin().is_err() && limits.used() == 4);
        drop((held, local, operators));
        assert_eq!((limits.used(), limits.tcp.used()), (0, 0));
    }
}
