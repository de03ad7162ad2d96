//! Where the bytes of a payload lie: in blocks of the server's payload memory, or in a region.

use std::{iter, ops::Range, sync::OnceLock, thread};

use super::{PayloadPool, QuotaPermit, RangeSet, RegionSlice, SharedPiece, pool::BLOCK};
use crate::{error::Result, region::SharedMemory};

/// Threads that wipe one payload, each at least 64 MiB (`benches/experiments/transport.md`).
const WIPING_THREADS: usize = 4;
const BLOCKS_PER_THREAD_MIN: usize = 4;

/// A payload's memory, in byte order, allocated as bytes are received, not when they are announced.
/// Zeroed on drop.
///
/// Reads and writes are plain copies: the state of the payload lets one writer write each byte, and
/// orders that before its reads. A panic during a copy leaves bytes that are not marked as
/// received, so the data stays sound.
pub(super) struct PayloadMemory {
    pub len: u64,
    pub pool: PayloadPool,
    /// The ranges that drop wipes.
    pub used: RangeSet,
    /// Where the payload lies, if not in blocks.
    pub region: Option<RegionSlice>,
    /// The blocks' ranges in the pool's memory. All are full except the last one.
    blocks: Box<[OnceLock<Range<u64>>]>,
    /// Returned after the blocks.
    _permits: Vec<QuotaPermit>,
}

impl PayloadMemory {
    /// For a payload of `len` bytes. `permits` are returned once its memory is wiped.
    pub fn new(pool: PayloadPool, len: u64, permits: Vec<QuotaPermit>) -> Self {
        let blocks = (0..len.div_ceil(BLOCK)).map(|_| OnceLock::new()).collect();
        Self { len, pool, used: RangeSet::default(), region: None, blocks, _permits: permits }
    }

    /// A payload in memory shared with a client, which is not wiped.
    pub fn in_region(pool: PayloadPool, region: RegionSlice) -> Self {
        let mut memory = Self::new(pool, 0, Vec::new());
        memory.len = region.size();
        memory.region = Some(region);
        memory
    }

    pub fn shared(&self) -> &SharedMemory {
        match &self.region {
            Some(region) => region.memory(),
            None => self.pool.memory(),
        }
    }

    /// Allocates memory for the bytes of `range` that have none. The caller excludes other callers.
    ///
    /// Errors: `Exhausted`.
    pub fn allocate(&self, range: &Range<u64>) -> Result<()> {
        if self.region.is_some() || range.is_empty() {
            return Ok(());
        }
        for index in range.start / BLOCK..range.end.div_ceil(BLOCK) {
            let block = &self.blocks[index as usize];
            if block.get().is_none() {
                let bytes = self.len - index * BLOCK;
                let taken = self.pool.take_block(bytes.min(BLOCK))?;
                block.set(taken).expect("one caller at a time");
            }
        }
        Ok(())
    }

    /// Writes `bytes`, starting at byte number `start`. They have memory.
    pub fn write(&self, start: u64, bytes: &[u8]) {
        let mut rest = bytes;
        for part in self.parts(start..start + bytes.len() as u64) {
            let (now, later) = rest.split_at(part.len());
            self.shared().write(part.start, now);
            rest = later;
        }
    }

    /// Copies `out.len()` bytes from `start` on. They must have been written.
    pub fn read(&self, start: u64, out: &mut [u8]) {
        let mut done = 0;
        for part in self.parts(start..start + out.len() as u64) {
            let len = part.len();
            self.shared().read(part.start, &mut out[done..done + len]);
            done += len;
        }
    }

    /// A copy of the bytes of `range`. They must have been written.
    pub fn copy(&self, range: Range<u64>) -> Vec<u8> {
        let mut bytes = Vec::with_capacity((range.end - range.start) as usize);
        self.parts(range)
            .for_each(|part| self.shared().append_to(&mut bytes, part.start, part.len()));
        bytes
    }

    /// Where the bytes of `range`, which have memory, lie.
    pub fn pieces(&self, range: Range<u64>) -> Vec<SharedPiece> {
        let mut pieces = Vec::new();
        let memory = self.shared().id();
        for part in self.parts(range) {
            let (start, len) = (part.start as u64, part.len() as u64);
            SharedPiece { memory, start, len }.add_to(&mut pieces);
        }
        pieces
    }

    /// The part of the server's payload memory that holds the bytes of `range`, which have memory.
    /// `None` if they lie in several parts or in a region.
    pub fn single_part(&self, range: Range<u64>) -> Option<Range<usize>> {
        if self.region.is_some() {
            return None;
        }
        let mut parts = self.parts(range);
        let first = parts.next()?;
        parts.try_fold(first, |all, part| (all.end == part.start).then_some(all.start..part.end))
    }

    /// The parts of the shared memory that hold the longest prefix of `range` that devices access
    /// directly.
    pub fn pinned_parts(&self, range: Range<u64>) -> Vec<Range<usize>> {
        let pinned = self.shared().pinned_bytes();
        let mut found = Vec::new();
        for part in self.parts(range) {
            let end = part.end.min(pinned);
            if part.start < end {
                found.push(part.start..end);
            }
            if end < part.end {
                break;
            }
        }
        found
    }

    /// The parts of the shared memory that hold the bytes of `range`, in the payload's order.
    fn parts(&self, range: Range<u64>) -> impl Iterator<Item = Range<usize>> {
        let Range { mut start, end } = range;
        iter::from_fn(move || {
            if start >= end {
                return None;
            }
            let part = match &self.region {
                Some(region) => region.start() + start..region.start() + end,
                None => {
                    let index = (start / BLOCK) as usize;
                    let offset = start % BLOCK;
                    let block = self.blocks[index].get().expect("used bytes have memory");
                    let len = (end - start).min(BLOCK - offset);
                    block.start + offset..block.start + offset + len
                }
            };
            start += part.end - part.start;
            Some(part.start as usize..part.end as usize)
        })
    }

    /// Wipes and returns a block.
    fn free(&self, index: usize) {
        let Some(block) = self.blocks[index].get() else { return };
        let start = index as u64 * BLOCK;
        let bytes = start..self.len.min(start + BLOCK);
        for used in self.used.parts(&bytes) {
            self.parts(used).for_each(|part| self.shared().wipe(part.start, part.len()));
        }
        self.pool.return_block(block.clone(), self.used.contains(&bytes));
    }
}

impl Drop for PayloadMemory {
    /// Wipes on several threads, since the next payload needs the memory.
    fn drop(&mut self) {
        let memory = &*self;
        let count = self.blocks.len();
        let share = count.div_ceil(WIPING_THREADS).max(BLOCKS_PER_THREAD_MIN);
        let free = |first: usize| {
            (first..count.min(first + share)).for_each(|index| memory.free(index));
        };
        thread::scope(|scope| {
            for first in (share..count).step_by(share) {
                if thread::Builder::new().spawn_scoped(scope, move || free(first)).is_err() {
                    free(first);
                }
            }
            free(0);
        });
    }
}
