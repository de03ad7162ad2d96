//! The memory that the payloads of one server share: spare segments, pinned memory, and the thread
//! that wipes dropped payloads.

use std::sync::Arc;

use memmap2::{Advice, MmapMut};
use parking_lot::Mutex;
use zeroize::Zeroize;

use super::Wiper;

/// Bytes of a slot, the clients' chunk size: a chunk is one copy under one lock.
pub(super) const SLOT: usize = 256 << 10;

/// Bytes of a segment of a large payload: one huge page, filled in half the time of small pages
/// (`benches/experiments/transport.md`).
pub(super) const SEGMENT_BYTES: usize = 2 << 20;

/// Segments of a group. Slots are assigned to them round-robin, so that writers of adjacent chunks
/// on several connections seldom contend for a lock.
pub(super) const GROUP_SEGMENTS: usize = 8;

pub(super) const GROUP: usize = GROUP_SEGMENTS * SEGMENT_BYTES;

/// Spare memory: this part of the limit on bytes in flight, but at least 64 MiB (the scalars of a
/// large MSM). By default, payloads in flight may use half of the memory.
const SPARE_DIVISOR: u64 = 64;
const SPARE_BYTES_MIN: u64 = 64 << 20;

/// A slot of memory that devices can access.
pub(super) type PinnedSlot = Mutex<&'static mut [u8]>;

/// The memory of a server's payloads. Clones share it.
#[derive(Clone)]
pub struct PayloadPool(Arc<IdleMemory>);

/// Memory that no payload uses, wiped.
struct IdleMemory {
    /// Kept for later payloads, which saves the system's zeroing of fresh pages.
    spare: Mutex<Vec<MmapMut>>,
    spare_max: usize,
    /// Groups of consecutive slots.
    pinned: Mutex<Vec<Vec<PinnedSlot>>>,
    wiper: Wiper,
}

impl PayloadPool {
    /// Memory for payloads of at most `bytes_max` in total. Payloads use `pinned`, which devices
    /// access directly, first, in groups of 16 MiB; the last part of a payload, if at least
    /// 512 KiB, takes a whole group. Of each slice, a remainder of less than 16 MiB is not used.
    pub fn new(bytes_max: u64, pinned: Vec<&'static mut [u8]>) -> Self {
        let spare_bytes = (bytes_max / SPARE_DIVISOR).max(SPARE_BYTES_MIN);
        let groups = pinned.into_iter().flat_map(|memory| memory.chunks_exact_mut(GROUP));
        let groups = groups.map(|group| group.chunks_exact_mut(SLOT).map(Mutex::new).collect());
        Self(Arc::new(IdleMemory {
            spare: Mutex::default(),
            spare_max: (spare_bytes / SEGMENT_BYTES as u64) as usize,
            pinned: Mutex::new(groups.collect()),
            wiper: Wiper::default(),
        }))
    }

    /// Bytes of wiped memory kept for later payloads, in addition to pinned memory.
    pub fn spare_bytes(&self) -> u64 {
        (self.0.spare.lock().len() * SEGMENT_BYTES) as u64
    }

    pub fn wiper(&self) -> &Wiper {
        &self.0.wiper
    }

    /// Zeroed pages of a segment; `None` if the system has none.
    pub(super) fn take_pages(&self) -> Option<MmapMut> {
        let spare = self.0.spare.lock().pop();
        spare.or_else(|| {
            let pages = MmapMut::map_anon(SEGMENT_BYTES).ok()?;
            // Without huge pages, small pages work too.
            let _small = pages.advise(Advice::HugePage);
            Some(pages)
        })
    }

    /// Wipes pages, and keeps them as spare or unmaps them.
    pub(super) fn return_pages(&self, mut pages: MmapMut) {
        wipe(&mut pages);
        let mut spare = self.0.spare.lock();
        if spare.len() < self.0.spare_max {
            spare.push(pages);
        }
    }

    /// A zeroed group of pinned slots, if there is one.
    pub(super) fn take_pinned(&self) -> Option<Vec<PinnedSlot>> {
        self.0.pinned.lock().pop()
    }

    /// Returns a group of pinned slots, which must be wiped.
    pub(super) fn return_pinned(&self, group: Vec<PinnedSlot>) {
        self.0.pinned.lock().push(group);
    }
}

/// Zeroes `memory`, whose length is a multiple of a page, word by word.
pub(super) fn wipe(memory: &mut [u8]) {
    bytemuck::cast_slice_mut::<u8, u64>(memory).zeroize();
}
