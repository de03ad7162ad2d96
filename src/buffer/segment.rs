//! Where the bytes of a payload lie: pieces of memory, each behind a lock of its own.

use std::{
    mem,
    sync::{Mutex, OnceLock, PoisonError},
};

use memmap2::{Advice, MmapMut};
use zeroize::{Zeroize, Zeroizing};

/// Bytes of a slot, the clients' chunk size: a chunk is one copy under one lock.
pub(super) const SLOT: usize = 256 << 10;

/// Bytes of a segment of a large payload: one huge page. Fresh memory page by page took longer than
/// the copy into it: 64 MiB in 42 ms, in huge pages 20 ms, and 14 ms where it was there before.
const SEGMENT: usize = 2 << 20;

/// Segments of a group. Slots are dealt to them in turn, so that writers on several connections,
/// whose chunks are neighbours, seldom meet at the same lock.
const WIDTH: usize = 8;

const GROUP: usize = WIDTH * SEGMENT;

/// Wiped segments that are kept for the next payload. The system zeroes what it hands out and we
/// wipe what we hand back; with a few kept, what streams through is wiped once. 64 MiB, or the part
/// of the host's memory that a large MSM's scalars are: 1 GiB of 128.
const SPARE_MIN: usize = 32;
const SPARE_PART: u64 = 128;

static SPARE: Mutex<Vec<MmapMut>> = Mutex::new(Vec::new());

/// Segments of memory that devices reach, wiped, which nothing uses now.
static LENT: Mutex<Vec<&'static mut [u8]>> = Mutex::new(Vec::new());

/// Gives payloads `memory` to lie in, from where and to where devices copy directly: large ones are
/// put there first, for as long as there is some. A rest that fills no segment of 2 MiB is lost.
pub fn lend(memory: &'static mut [u8]) {
    let segments = memory.chunks_exact_mut(SEGMENT);
    LENT.lock().unwrap_or_else(PoisonError::into_inner).extend(segments);
}

fn spare_max() -> usize {
    static MAX: OnceLock<usize> = OnceLock::new();
    *MAX.get_or_init(|| {
        let host = rustix::system::sysinfo();
        let bytes = host.totalram as u64 * u64::from(host.mem_unit) / SPARE_PART;
        (bytes as usize / SEGMENT).max(SPARE_MIN)
    })
}

/// Memory of a segment, zeroed on drop.
#[derive(Default)]
pub(super) enum Segment {
    /// Nothing has come yet. Memory is taken as bytes come, not when they are announced.
    #[default]
    Absent,
    /// A slot of what does not fill a group: from the allocator, which keeps it warm. 64-bit words,
    /// because wiping goes word by word.
    Heap(Zeroizing<Box<[u64]>>),
    /// Of a group: pages of its own, which go back to the system, but for a few; `None` as they do.
    Pages(Option<MmapMut>),
    /// Of a group: lent, and returned.
    Lent(&'static mut [u8]),
}

/// Where a byte is.
pub(super) struct Place {
    /// Which segment.
    pub segment: usize,
    /// Where in it.
    pub offset: usize,
    /// How many bytes follow there, this one included.
    pub run: usize,
    /// Bytes of that segment.
    pub size: usize,
}

/// How many segments a payload of `len` bytes has.
pub(super) fn segments(len: u64) -> u64 {
    let (groups, rest) = (len / GROUP as u64, len % GROUP as u64);
    groups * WIDTH as u64 + rest.div_ceil(SLOT as u64)
}

/// Where byte `at` of a payload of `len` bytes is. Shape: at < len.
pub(super) fn place(len: u64, at: u64) -> Place {
    let (group, within) = ((at / GROUP as u64) as usize, (at % GROUP as u64) as usize);
    let (slot, in_slot) = (within / SLOT, within % SLOT);
    if group < (len / GROUP as u64) as usize {
        let segment = group * WIDTH + slot % WIDTH;
        let offset = slot / WIDTH * SLOT + in_slot;
        return Place { segment, offset, run: SLOT - in_slot, size: SEGMENT };
    }
    let size = (len - (at - in_slot as u64)).min(SLOT as u64) as usize;
    Place { segment: group * WIDTH + slot, offset: in_slot, run: size - in_slot, size }
}

impl Segment {
    /// Puts `bytes` at `offset` of a segment of `size` bytes.
    pub fn write(&mut self, size: usize, offset: usize, bytes: &[u8]) {
        if matches!(self, Self::Absent) && size < SEGMENT && bytes.len() == size {
            // The usual chunk: no need to zero it first.
            return *self = Self::Heap(words(bytes));
        }
        self.appear(size);
        if let Some(memory) = self.bytes_mut() {
            memory[offset..offset + bytes.len()].copy_from_slice(bytes);
        }
    }

    /// Copies from `offset` on. Nothing where nothing has come.
    pub fn read(&self, offset: usize, out: &mut [u8]) {
        let memory: &[u8] = match self {
            Self::Absent | Self::Pages(None) => return,
            Self::Heap(words) => bytemuck::cast_slice(words),
            Self::Pages(Some(pages)) => pages,
            Self::Lent(memory) => memory,
        };
        out.copy_from_slice(&memory[offset..offset + out.len()]);
    }

    /// Memory for what will come, `size` bytes of it, zeroed.
    pub fn appear(&mut self, size: usize) {
        if matches!(self, Self::Absent) {
            *self = if size == SEGMENT { pages() } else { zeros(size) };
        }
    }

    /// The bytes of a segment that devices reach.
    pub fn lent_mut(&mut self) -> Option<&mut [u8]> {
        if let Self::Lent(memory) = self { Some(memory) } else { None }
    }

    /// The same, to be read.
    pub fn lent(&self) -> Option<&[u8]> {
        if let Self::Lent(memory) = self { Some(memory) } else { None }
    }

    fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        match self {
            Self::Absent => None,
            Self::Heap(words) => Some(bytemuck::cast_slice_mut(words)),
            Self::Pages(pages) => pages.as_deref_mut(),
            Self::Lent(memory) => Some(memory),
        }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        let pages = match self {
            Self::Absent | Self::Heap(_) => return,
            Self::Pages(pages) => pages.take(),
            Self::Lent(memory) => {
                let memory = mem::take(memory);
                bytemuck::cast_slice_mut::<u8, u64>(memory).zeroize();
                return LENT.lock().unwrap_or_else(PoisonError::into_inner).push(memory);
            }
        };
        let Some(mut pages) = pages else { return };
        bytemuck::cast_slice_mut::<u8, u64>(&mut pages).zeroize();
        let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < spare_max() {
            spare.push(pages);
        }
    }
}

fn zeros(size: usize) -> Segment {
    Segment::Heap(Zeroizing::new(vec![0; size.div_ceil(8)].into()))
}

fn pages() -> Segment {
    if let Some(lent) = LENT.lock().unwrap_or_else(PoisonError::into_inner).pop() {
        return Segment::Lent(lent);
    }
    let spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    if spare.is_some() {
        return Segment::Pages(spare);
    }
    // The allocator knows what to do where the system gives none.
    let Ok(pages) = MmapMut::map_anon(SEGMENT) else { return zeros(SEGMENT) };
    // Where there are no huge pages, small ones do.
    let _small = pages.advise(Advice::HugePage);
    Segment::Pages(Some(pages))
}

/// A copy, the last word filled up with zeros.
fn words(bytes: &[u8]) -> Zeroizing<Box<[u64]>> {
    let (whole, rest) = bytes.as_chunks();
    let mut words = Vec::with_capacity(bytes.len().div_ceil(8));
    words.extend(whole.iter().map(|word| u64::from_ne_bytes(*word)));
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        words.push(u64::from_ne_bytes(last));
    }
    Zeroizing::new(words.into_boxed_slice())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_has_a_place_of_its_own() {
        let (slot, group) = (SLOT as u64, GROUP as u64);
        for len in [1, slot, slot + 1, group - 1, group, 2 * group + 3 * slot + 5] {
            let mut taken = vec![Vec::new(); segments(len) as usize];
            let mut at = 0;
            while at < len {
                let middle = place(len, at + (len - at).min(7) / 2);
                let place = place(len, at);
                assert!(middle.segment == place.segment && place.offset + place.run <= place.size);
                taken[place.segment].push(place.offset..place.offset + place.run);
                at += place.run as u64;
            }
            assert_eq!(at, len);
            for ranges in &mut taken {
                ranges.sort_by_key(|range| range.start);
                assert!(!ranges.is_empty() && ranges[0].start == 0);
                assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start));
            }
        }
    }
}
