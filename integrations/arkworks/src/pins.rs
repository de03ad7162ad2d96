//! Which ranges of memory are bases on a server.

use std::{
    marker::PhantomData,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use capstan::client::{BasesHandle, CurvePoint, G1Affine, G2Affine};
use parking_lot::RwLock;

use crate::offload::Server;

pub(crate) static G1_PINS: PinTable<G1Affine> = PinTable::new();
pub(crate) static G2_PINS: PinTable<G2Affine> = PinTable::new();

/// Bases of this process that a server has. When it is dropped, MSMs over them run locally again;
/// the server keeps the bases until it needs the memory, or until `Client::release`.
///
/// It borrows the bases, so that they cannot be changed or freed. Do not pass it to `mem::forget`:
/// the bases could then be replaced by others at the same address, and sums would be wrong.
#[must_use = "the bases are unknown again when this value is dropped"]
pub struct PinnedBases<'a> {
    pin: u64,
    bases: PhantomData<&'a ()>,
}

impl PinnedBases<'_> {
    pub(crate) fn new() -> Self {
        static PINS: AtomicU64 = AtomicU64::new(0);
        Self { pin: PINS.fetch_add(1, Ordering::Relaxed), bases: PhantomData }
    }

    pub(crate) fn pin(&self) -> u64 {
        self.pin
    }
}

impl Drop for PinnedBases<'_> {
    fn drop(&mut self) {
        G1_PINS.remove(self.pin);
        G2_PINS.remove(self.pin);
    }
}

impl std::fmt::Debug for PinnedBases<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PinnedBases({})", self.pin)
    }
}

/// The pinned ranges of one group.
pub(crate) struct PinTable<A>(RwLock<Vec<PinnedRange<A>>>);

struct PinnedRange<A> {
    pin: u64,
    /// Address of the first point.
    address: usize,
    handle: BasesHandle<A>,
    server: Arc<Server>,
}

/// Bases of an MSM, and the server that has them.
pub(crate) struct FoundBases<A> {
    pub handle: BasesHandle<A>,
    pub server: Arc<Server>,
}

impl<A: CurvePoint> PinTable<A> {
    const fn new() -> Self {
        Self(RwLock::new(Vec::new()))
    }

    /// Remembers that `server` has `points`, until [`Self::remove`] is called.
    pub fn insert(&self, pin: u64, points: &[A], handle: BasesHandle<A>, server: Arc<Server>) {
        let address = points.as_ptr() as usize;
        self.0.write().push(PinnedRange { pin, address, handle, server });
    }

    fn remove(&self, pin: u64) {
        self.0.write().retain(|range| range.pin != pin);
    }

    /// Finds the pinned range that has all of the `len` points at `address`, the latest first.
    pub fn find(&self, address: usize, len: usize) -> Option<FoundBases<A>> {
        self.0.read().iter().rev().find_map(|range| {
            let bytes = address.checked_sub(range.address)?;
            if bytes % size_of::<A>() != 0 {
                return None;
            }
            let first = bytes / size_of::<A>();
            let handle = range.handle.slice(first as u64, len as u64)?;
            Some(FoundBases { handle, server: range.server.clone() })
        })
    }
}
