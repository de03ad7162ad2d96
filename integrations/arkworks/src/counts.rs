//! How many MSMs were computed where.

use std::sync::atomic::{AtomicU64, Ordering};

static OFFLOADED: AtomicU64 = AtomicU64::new(0);
static LOCAL: AtomicU64 = AtomicU64::new(0);
static FAILED: AtomicU64 = AtomicU64::new(0);

/// Numbers of MSMs in this process since [`crate::install`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// A server computed the sum.
    pub offloaded: u64,
    /// Computed locally without a call: the bases are not pinned, there are few of them, or a
    /// server failed shortly before.
    pub local: u64,
    /// Computed locally after a call of a server failed.
    pub failed: u64,
}

impl Counts {
    /// The numbers since `earlier`, which the same process has read before.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            offloaded: self.offloaded - earlier.offloaded,
            local: self.local - earlier.local,
            failed: self.failed - earlier.failed,
        }
    }
}

/// The numbers up to now.
pub fn counts() -> Counts {
    Counts {
        offloaded: OFFLOADED.load(Ordering::Relaxed),
        local: LOCAL.load(Ordering::Relaxed),
        failed: FAILED.load(Ordering::Relaxed),
    }
}

pub(crate) fn count_offloaded() {
    OFFLOADED.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn count_local() {
    LOCAL.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn count_failed() {
    FAILED.fetch_add(1, Ordering::Relaxed);
}
