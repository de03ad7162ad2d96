//! The memory of open calls, and how those who make them share it.

use std::sync::Arc;

use crate::{
    buffer::Quota,
    error::{EngineError as Error, Limit},
    jobs::{AdmissionPermit, charge},
};

/// The memory that open calls of all callers may take.
pub struct CallMemoryPool {
    all: Arc<Quota>,
    /// That of calls over TCP: less, so that the Unix socket keeps a part.
    remote: Arc<Quota>,
}

impl CallMemoryPool {
    pub fn new(limit: Limit, bytes_max: u64) -> Self {
        let all = Quota::new(limit, bytes_max);
        let remote = Quota::new(limit, all.max() - all.reserve());
        Self { all, remote }
    }

    pub fn used(&self) -> u64 {
        self.all.used()
    }

    /// What a call takes of it. `source` counts the calls from the same address or local user.
    pub fn for_call(&self, is_remote: bool, source: Option<Arc<Quota>>) -> CallMemory {
        let remote = is_remote.then(|| self.remote.clone());
        CallMemory { all: self.all.clone(), remote, source }
    }
}

/// What one call takes memory from.
#[derive(Clone)]
pub struct CallMemory {
    all: Arc<Quota>,
    /// `None` for a call over a Unix socket.
    remote: Option<Arc<Quota>>,
    /// `None` if a proxy makes the call for another caller.
    source: Option<Arc<Quota>>,
}

impl CallMemory {
    pub fn quotas(&self) -> impl Iterator<Item = &Arc<Quota>> {
        [&self.all].into_iter().chain(&self.remote).chain(&self.source)
    }

    /// Leaves memory to the calls of other addresses and local users.
    ///
    /// Errors: `Exhausted`.
    pub fn check_share_of_source(&self, bytes: u64) -> Result<(), Error> {
        let own = self.source.as_ref();
        own.map_or(Ok(()), |own| self.check_share(own.used(), bytes, true))
    }

    /// Leaves memory to others than a holder of `own`.
    ///
    /// Errors: `Exhausted`.
    pub fn check_share(&self, own: u64, bytes: u64, has_others: bool) -> Result<(), Error> {
        self.remote.as_ref().unwrap_or(&self.all).check_share(own, bytes, has_others)
    }

    /// Whether the calls of the source have at most the part that is kept for others.
    pub fn source_holds_little(&self) -> bool {
        self.source.as_ref().is_some_and(|own| own.used() <= self.all.reserve())
    }

    /// Takes `bytes`, even if that exceeds the limits.
    pub fn charge(&self, bytes: u64) -> AdmissionPermit {
        let quotas: Vec<_> = [&self.all].into_iter().chain(&self.source).cloned().collect();
        charge(&quotas, bytes)
    }
}
