//! Memory shared with a server on the same host, through which large payloads of calls travel: the
//! client copies them once, and devices read and write them there. In messages, they would be
//! copied four times (`benches/experiments/transport.md`).

mod space;

use std::{
    ops::Range,
    process,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::{task::spawn_blocking, time::sleep};

use self::space::RegionSpace;
use crate::transfer::mapped_region::{ClientRegion, unix_socket};
use crate::wire::v1;

/// Smaller payloads travel in messages.
pub(crate) const STAGED_BYTES_MIN: u64 = 128 << 10;
/// Vectors of one call begin at multiples of a page.
pub(crate) const PAGE_BYTES: u64 = space::PAGE as u64;
/// A client takes at most this part of the server's memory for regions.
const SHARE: u64 = 4;
/// A region holds at least this much, so that it serves several calls at a time.
const REGION_BYTES_MIN: u64 = 32 << 20;
/// Opening a region takes longer than a call gains, so the first payload does not open one.
const PAYLOADS_BEFORE_OPENING: u32 = 2;
/// A place is wiped if no payload has overwritten it for this long.
const WIPED_AFTER: Duration = Duration::from_millis(100);
/// A region is closed if no payload has used it for this long.
const CLOSED_AFTER: Duration = Duration::from_secs(10);
/// Pause after the server has refused a region.
const REFUSAL_PAUSE: Duration = Duration::from_secs(10);

/// The regions of a client and its clones. They are opened in the background.
pub(crate) struct StagingPool {
    /// Bytes of all regions; 0 if the server shares no memory with this client.
    bytes_max: u64,
    /// The process that uses the regions; a fork of it must not write to them.
    process: u32,
    state: Mutex<StagingState>,
}

#[derive(Default)]
struct StagingState {
    regions: Vec<StagingRegion>,
    /// Payloads for which no region had a place.
    misses: u32,
    is_opening: bool,
    is_maintained: bool,
    refused: Option<Instant>,
}

struct StagingRegion {
    region: Arc<ClientRegion>,
    space: RegionSpace,
}

/// Places of a region that are to be wiped.
struct OldPlaces {
    region: Arc<ClientRegion>,
    ranges: Vec<Range<usize>>,
}

impl StagingPool {
    /// For a server at `target` that shares at most `region_bytes` bytes with all clients.
    pub fn new(target: &str, region_bytes: u64) -> Arc<Self> {
        let is_local = unix_socket(target).is_some();
        let bytes_max = if is_local { region_bytes / SHARE } else { 0 };
        Arc::new(Self { bytes_max, process: process::id(), state: Mutex::default() })
    }

    /// Whether payloads of `bytes` bytes may travel through regions.
    pub fn may_hold(&self, bytes: u64) -> bool {
        let is_of_parent = self.process != process::id();
        (STAGED_BYTES_MIN..=self.bytes_max).contains(&bytes) && !is_of_parent
    }

    /// A place for `bytes` bytes, if a region has one.
    pub fn take(self: &Arc<Self>, bytes: usize) -> Option<StagedMemory> {
        let mut state = self.state.lock();
        let mut whole = state.regions.iter_mut().filter(|found| !found.space.has_lost_places());
        whole.find_map(|StagingRegion { region, space }| {
            let (range, region) = (space.take(bytes)?, region.clone());
            Some(StagedMemory { pool: self.clone(), region, range })
        })
    }

    /// The size of a region to open for payloads like this one; `None` if none may be opened now.
    pub fn begin_opening(&self, bytes: u64) -> Option<u64> {
        let mut state = self.state.lock();
        state.misses = state.misses.saturating_add(1);
        let is_paused = state.refused.is_some_and(|refused| refused.elapsed() < REFUSAL_PAUSE);
        if state.misses < PAYLOADS_BEFORE_OPENING || state.is_opening || is_paused {
            return None;
        }
        let open: u64 = state.regions.iter().map(|region| region.space.size() as u64).sum();
        let size = bytes.checked_next_power_of_two()?.max(REGION_BYTES_MIN);
        let size = size.min(self.bytes_max.saturating_sub(open));
        state.is_opening = size >= bytes;
        state.is_opening.then_some(size)
    }

    /// Adds the region that was opened, unless the server has refused it.
    pub fn end_opening(self: &Arc<Self>, opened: Option<ClientRegion>) {
        let now = Instant::now();
        let mut state = self.state.lock();
        state.is_opening = false;
        let Some(region) = opened else {
            state.refused = Some(now);
            return;
        };
        let space = RegionSpace::new(region.memory.size(), now);
        state.regions.push(StagingRegion { region: Arc::new(region), space });
        if !state.is_maintained {
            state.is_maintained = true;
            tokio::spawn(maintain(Arc::downgrade(self)));
        }
    }

    /// Closes regions that are not used, and takes what has to be wiped. `None` without regions.
    fn expire(&self) -> Option<Vec<OldPlaces>> {
        let (now, mut state) = (Instant::now(), self.state.lock());
        let is_used = |StagingRegion { space, .. }: &mut StagingRegion| {
            let was_used = now.saturating_duration_since(space.last_use) < CLOSED_AFTER;
            !space.is_unused() || was_used && !space.has_lost_places()
        };
        let closed: Vec<_> = state.regions.extract_if(.., |region| !is_used(region)).collect();
        state.is_maintained = !state.regions.is_empty();
        let regions = state.regions.iter_mut();
        let old = regions.map(|StagingRegion { region, space }| OldPlaces {
            region: region.clone(),
            ranges: space.take_old(WIPED_AFTER, now),
        });
        let old = old.filter(|places| !places.ranges.is_empty()).collect();
        let is_maintained = state.is_maintained;
        drop(state);
        // Unmaps memory.
        drop(closed);
        is_maintained.then_some(old)
    }

    fn with_space(&self, region: &Arc<ClientRegion>, change: impl FnOnce(&mut RegionSpace)) {
        let mut state = self.state.lock();
        let found = state.regions.iter_mut().find(|found| Arc::ptr_eq(&found.region, region));
        if let Some(StagingRegion { space, .. }) = found {
            change(space);
        }
    }
}

/// Wipes and closes what is not used, as long as the pool has regions.
async fn maintain(pool: Weak<StagingPool>) {
    loop {
        sleep(WIPED_AFTER).await;
        let Some(pool) = pool.upgrade() else { return };
        let Some(old) = pool.expire() else { return };
        for OldPlaces { region, ranges } in old {
            let wiped = spawn_blocking(move || {
                ranges.iter().for_each(|range| region.memory.wipe(range.start, range.len()));
                OldPlaces { region, ranges }
            });
            let Ok(OldPlaces { region, ranges }) = wiped.await else { return };
            pool.with_space(&region, |space| {
                ranges.into_iter().for_each(|range| space.give_back_wiped(range));
            });
        }
    }
}

/// Shared memory for the payloads of one call.
pub(crate) struct StagedMemory {
    pool: Arc<StagingPool>,
    region: Arc<ClientRegion>,
    /// Empty once it is returned.
    range: Range<usize>,
}

impl StagedMemory {
    /// Where byte `offset` of the memory lies.
    pub fn place(&self, offset: u64) -> v1::RegionPlace {
        let region_id = Bytes::copy_from_slice(&self.region.id);
        v1::RegionPlace { region_id, offset: self.range.start as u64 + offset }
    }

    /// Copies `bytes` to byte `offset` of the memory.
    ///
    /// Shape: the bytes fit.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.range.len(), "writes within the lease");
        self.region.memory.write(self.range.start + offset, bytes);
    }

    /// Copies from byte `offset` of the memory.
    ///
    /// Shape: the bytes exist.
    pub fn read(&self, offset: usize, out: &mut [u8]) {
        assert!(offset + out.len() <= self.range.len(), "reads within the lease");
        self.region.memory.read(self.range.start + offset, out);
    }

    /// Makes the memory free for other payloads, since the server's last response shows that it no
    /// longer uses it.
    pub fn release(mut self) {
        let range = std::mem::take(&mut self.range);
        self.pool.with_space(&self.region, |space| space.give_back(range, Instant::now()));
    }
}

impl Drop for StagedMemory {
    fn drop(&mut self) {
        // The server may still use the memory: the region is closed when its other payloads have
        // left it.
        let range = std::mem::take(&mut self.range);
        if !range.is_empty() {
            self.pool.with_space(&self.region, |space| space.lose(range));
        }
    }
}
