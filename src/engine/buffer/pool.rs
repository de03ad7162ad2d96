//! Memory that payloads of one server share: a sealed file, from which payloads get blocks, and the
//! thread that wipes dropped payloads.
//!
//! All payloads of a server lie in two sealed files, of inputs and of results, so that another
//! process can map them and use the bytes in place: sparse files, each larger than all payloads,
//! whose pages exist once they are written. Payloads take the lowest free block that fits. Dropped
//! payloads leave wiped pages: the touched beginning of each file always stays, the lowest of the
//! other pages stay up to the spare limit, and the rest returns to the system. Bytes are copied
//! without locks: the state of a payload lets one writer write each byte, and orders that before
//! its reads.

use std::{any::Any, ops::Range, sync::Arc};

use super::{RangeSet, Wiper, quota::RETRY_AFTER};
use crate::{
    error::{Error, Limit, Result},
    region::{DeviceAccess, SharedMemory},
    sync::Mutex,
};

/// Bytes of a full block.
pub(super) const BLOCK: u64 = 16 << 20;

/// A payload's last block consists of whole pages.
const PAGE: u64 = 4 << 10;

/// Spare memory of each of a server's two pools: this part of the limit on bytes in flight, but at
/// least 32 MiB (the scalars of a large MSM). By default, payloads in flight may use half of the
/// memory.
const SPARE_DIVISOR: u64 = 128;
const SPARE_BYTES_MIN: u64 = 32 << 20;

/// The file is larger than all payloads: gaps between blocks may be too small for a block, and a
/// payload that is being wiped is no longer in flight. Only pages in use take memory.
const SIZE_FACTOR: u64 = 2;
const SIZE_MIN: u64 = 1 << 30;

/// An eighth of the addresses that a process has.
const SIZE_MAX: u64 = 16 << 40;

/// Memory of a server's payloads: of those that it receives, or of results. Clones share it.
#[derive(Clone)]
pub struct PayloadPool(Arc<PoolMemory>);

struct PoolMemory {
    /// Lets devices access the memory; dropped before the memory.
    pinning: Mutex<Option<Box<dyn Any + Send + Sync>>>,
    memory: Arc<SharedMemory>,
    /// The first bytes, whose pages always stay.
    touched: u64,
    spare_max: u64,
    idle: Mutex<IdleRanges>,
    wiper: Wiper,
}

/// Ranges of the file that no payload uses. They are wiped.
#[derive(Default)]
struct IdleRanges {
    free: RangeSet,
    /// Ranges beyond the touched ones that have pages, which saves the system's zeroing of fresh
    /// pages.
    spare: RangeSet,
}

/// The size of the file that holds payloads of at most `bytes_max` bytes in total. The first
/// `touched_bytes` have pages from the start.
pub fn payload_file_bytes(bytes_max: u64, touched_bytes: u64) -> u64 {
    let touched = touched_bytes.min(SIZE_MAX).next_multiple_of(PAGE);
    let size = bytes_max.saturating_mul(SIZE_FACTOR).saturating_add(SIZE_MIN);
    size.saturating_add(touched).min(SIZE_MAX).next_multiple_of(BLOCK).max(touched)
}

impl PayloadPool {
    /// Memory for payloads of at most `bytes_max` bytes in total. The first `touched_bytes` have
    /// pages from the start, which payloads use first.
    ///
    /// Errors: `Internal` if the system has too little memory.
    pub fn new(bytes_max: u64, touched_bytes: u64) -> Result<Self> {
        Self::with_access(bytes_max, touched_bytes, DeviceAccess::ReadWrite)
    }

    /// Memory to which devices do not write.
    pub fn of_inputs(bytes_max: u64, touched_bytes: u64) -> Result<Self> {
        Self::with_access(bytes_max, touched_bytes, DeviceAccess::Read)
    }

    fn with_access(bytes_max: u64, touched_bytes: u64, access: DeviceAccess) -> Result<Self> {
        let touched = touched_bytes.min(SIZE_MAX).next_multiple_of(PAGE);
        let size = payload_file_bytes(bytes_max, touched_bytes);
        let failed = |error| Error::Internal(format!("cannot create payload memory: {error}"));
        let memory = SharedMemory::create_sparse(size as usize, touched as usize, access);
        let mut idle = IdleRanges::default();
        idle.free.insert(0..size);
        let spare_max = (bytes_max / SPARE_DIVISOR).max(SPARE_BYTES_MIN);
        Ok(Self(Arc::new(PoolMemory {
            pinning: Mutex::default(),
            memory: Arc::new(memory.map_err(failed)?),
            touched,
            spare_max: spare_max / PAGE * PAGE,
            idle: Mutex::new(idle),
            wiper: Wiper::default(),
        })))
    }

    pub fn memory(&self) -> &Arc<SharedMemory> {
        &self.0.memory
    }

    /// Keeps the memory pinned as long as the pool exists: drops `pinning` with the pool.
    pub fn hold_pinning(&self, pinning: Box<dyn Any + Send + Sync>) {
        *self.0.pinning.lock() = Some(pinning);
    }

    /// Bytes of wiped memory kept for later payloads, in addition to the touched bytes at the start
    /// of the file, which always stay.
    pub fn spare_bytes(&self) -> u64 {
        self.0.idle.lock().spare.covered()
    }

    pub fn wiper(&self) -> &Wiper {
        &self.0.wiper
    }

    /// The lowest zeroed block of the file for `bytes` bytes.
    ///
    /// Errors: `Exhausted`.
    pub(super) fn take_block(&self, bytes: u64) -> Result<Range<u64>> {
        let full = Error::Exhausted { limit: Limit::BytesInFlight, retry_after: Some(RETRY_AFTER) };
        let mut idle = self.0.idle.lock();
        let block = idle.free.take_first(bytes.next_multiple_of(PAGE)).ok_or(full)?;
        idle.spare.remove(block.clone());
        Ok(block)
    }

    /// Returns a wiped block. If it was not full, some of its pages may not exist.
    pub(super) fn return_block(&self, block: Range<u64>, was_full: bool) {
        let inner = &*self.0;
        let beyond = block.start.max(inner.touched).min(block.end)..block.end;
        if !was_full {
            self.discard(&beyond);
        }
        let mut idle = inner.idle.lock();
        idle.free.insert(block);
        if was_full {
            idle.spare.insert(beyond);
        }
        // Keeps the lowest pages, which payloads use first.
        while let excess @ 1.. = idle.spare.covered().saturating_sub(inner.spare_max)
            && let Some(surplus) = idle.spare.take_last(excess)
        {
            // No payload gets the range meanwhile.
            idle.free.remove(surplus.clone());
            drop(idle);
            self.discard(&surplus);
            idle = inner.idle.lock();
            idle.free.insert(surplus);
        }
    }

    /// Returns the pages of wiped memory to the system.
    fn discard(&self, range: &Range<u64>) {
        if !range.is_empty() {
            let (start, bytes) = (range.start as usize, (range.end - range.start) as usize);
            // After an error, the pages stay.
            let _kept = self.0.memory.discard(start, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// Takes blocks, which are returned full.
    fn take(pool: &PayloadPool, count: usize) -> Vec<Range<u64>> {
        (0..count).map(|_| pool.take_block(BLOCK).unwrap()).collect()
    }

    #[test]
    fn the_lowest_block_that_fits_is_taken() {
        let pool = PayloadPool::new(0, 0).unwrap();
        let blocks = take(&pool, 3);
        assert_eq!(blocks, [0..BLOCK, BLOCK..2 * BLOCK, 2 * BLOCK..3 * BLOCK]);
        assert_eq!(pool.take_block(1), Ok(3 * BLOCK..3 * BLOCK + PAGE));
        pool.return_block(blocks[1].clone(), true);
        assert_eq!(pool.take_block(PAGE + 1), Ok(BLOCK..BLOCK + 2 * PAGE));
        pool.return_block(blocks[0].clone(), true);
        assert_eq!(pool.take_block(BLOCK), Ok(0..BLOCK));
    }

    #[test]
    fn the_lowest_pages_are_kept_as_spare_up_to_the_limit() {
        const SPARE_BLOCKS: usize = (SPARE_BYTES_MIN / BLOCK) as usize;
        let pool = PayloadPool::new(0, 2 * BLOCK).unwrap();
        let blocks = take(&pool, SPARE_BLOCKS + 4);
        for block in &blocks {
            pool.memory().write(block.start as usize, &[1; BLOCK as usize]);
        }
        for block in blocks.iter().rev() {
            pool.memory().wipe(block.start as usize, BLOCK as usize);
            pool.return_block(block.clone(), true);
        }
        assert_eq!(pool.spare_bytes(), SPARE_BYTES_MIN);
        let spare = 2 * BLOCK..2 * BLOCK + SPARE_BYTES_MIN;
        assert_eq!(pool.0.idle.lock().spare.parts(&(0..u64::MAX)), [spare]);
        let pages = rustix::fs::fstat(pool.memory().file()).unwrap().st_blocks as u64 * 512;
        assert_eq!(pages, 2 * BLOCK + SPARE_BYTES_MIN, "the other pages were returned");
        take(&pool, 3);
        assert_eq!(pool.spare_bytes(), SPARE_BYTES_MIN - BLOCK);
    }

    /// Not the memory of the machine, of which a container may use a small part.
    #[test]
    fn spare_memory_follows_the_limit_on_bytes_in_flight() {
        for (bytes_max, spare_max) in [(0, 32 << 20), (4 << 30, 32 << 20), (64 << 30, 512 << 20)] {
            assert_eq!(PayloadPool::new(bytes_max, 0).unwrap().0.spare_max, spare_max);
        }
    }

    #[test]
    fn pages_of_a_block_that_was_not_full_are_returned_to_the_system() {
        let pool = PayloadPool::new(0, PAGE).unwrap();
        let block = pool.take_block(BLOCK).unwrap();
        pool.memory().write(0, &[1; 3 * PAGE as usize]);
        pool.memory().wipe(0, 3 * PAGE as usize);
        pool.return_block(block, false);
        assert_eq!(pool.spare_bytes(), 0);
        let pages = rustix::fs::fstat(pool.memory().file()).unwrap().st_blocks as u64 * 512;
        assert_eq!(pages, PAGE, "the touched page stays");
    }

    #[test]
    fn a_full_file_is_an_exhausted_limit() {
        let pool = PayloadPool::new(0, 0).unwrap();
        let blocks = take(&pool, (SIZE_MIN / BLOCK) as usize);
        let full = Error::Exhausted { limit: Limit::BytesInFlight, retry_after: Some(RETRY_AFTER) };
        assert_eq!(pool.take_block(1), Err(full));
        pool.return_block(blocks[5].clone(), false);
        assert_eq!(pool.take_block(BLOCK), Ok(blocks[5].clone()));
    }

    #[test]
    fn the_memory_is_unpinned_with_the_pool() {
        struct Pinning(Arc<AtomicBool>);
        impl Drop for Pinning {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Release);
            }
        }
        let is_unpinned = Arc::new(AtomicBool::new(false));
        let pool = PayloadPool::new(0, 0).unwrap();
        pool.hold_pinning(Box::new(Pinning(is_unpinned.clone())));
        let other = pool.clone();
        drop(pool);
        assert!(!is_unpinned.load(Ordering::Acquire));
        drop(other);
        assert!(is_unpinned.load(Ordering::Acquire));
    }
}
