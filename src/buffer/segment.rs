//! Segments of memory that hold the bytes of a payload.

use std::sync::{Mutex, OnceLock, PoisonError};

use memmap2::{Advice, MmapMut};
use zeroize::{Zeroize, Zeroizing};

/// Bytes of a segment of a large payload: one huge page. Filling 64 MiB takes 42 ms in fresh small
/// pages, 20 ms in fresh huge pages, 14 ms in reused memory.
pub(super) const SEGMENT_BYTES: usize = 2 << 20;

/// Wiped segments kept for later payloads, which saves the system's zeroing of fresh pages: 64 MiB
/// or 1/128 of the host's memory, whichever is more (the scalars of a large MSM).
const SPARE_MIN: usize = 32;
const SPARE_PART: u64 = 128;

static SPARE: Mutex<Vec<MmapMut>> = Mutex::new(Vec::new());

fn spare_max() -> usize {
    static MAX: OnceLock<usize> = OnceLock::new();
    *MAX.get_or_init(|| {
        let host = rustix::system::sysinfo();
        let bytes = host.totalram as u64 * u64::from(host.mem_unit) / SPARE_PART;
        (bytes as usize / SEGMENT_BYTES).max(SPARE_MIN)
    })
}

/// Memory of a segment, zeroed on drop.
#[derive(Default)]
pub(super) enum Segment {
    /// No bytes have been received. Memory is allocated on arrival, not on announcement.
    #[default]
    Absent,
    /// A slot of a tail that fills no group, from the allocator, which keeps the memory warm.
    /// 64-bit words, since wiping works on words.
    Heap(Zeroizing<Box<[u64]>>),
    /// Part of a group: its own pages, kept as spare or unmapped on drop; `None` during drop.
    Pages(Option<MmapMut>),
}

impl Segment {
    /// Writes `bytes` at `offset` of a segment of `size` bytes.
    pub fn write(&mut self, size: usize, offset: usize, bytes: &[u8]) {
        if matches!(self, Self::Absent) {
            *self = match size {
                SEGMENT_BYTES => pages(),
                // The usual case, a whole chunk: avoid zeroing it first.
                _ if bytes.len() == size => return *self = Self::Heap(words(bytes)),
                _ => zeros(size),
            };
        }
        if let Some(memory) = self.bytes_mut() {
            memory[offset..offset + bytes.len()].copy_from_slice(bytes);
        }
    }

    /// `len` bytes from `offset` on; empty if the segment has received none.
    pub fn bytes(&self, offset: usize, len: usize) -> &[u8] {
        let memory: &[u8] = match self {
            Self::Absent | Self::Pages(None) => &[],
            Self::Heap(words) => bytemuck::cast_slice(words),
            Self::Pages(Some(pages)) => pages,
        };
        memory.get(offset..offset + len).unwrap_or_default()
    }

    fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        match self {
            Self::Absent => None,
            Self::Heap(words) => Some(bytemuck::cast_slice_mut(words)),
            Self::Pages(pages) => pages.as_deref_mut(),
        }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        let Self::Pages(pages) = self else { return };
        let Some(mut pages) = pages.take() else { return };
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
    let spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    if spare.is_some() {
        return Segment::Pages(spare);
    }
    // If mapping fails, leave it to the allocator to handle.
    let Ok(pages) = MmapMut::map_anon(SEGMENT_BYTES) else { return zeros(SEGMENT_BYTES) };
    // Without huge pages, small pages work too.
    let _small = pages.advise(Advice::HugePage);
    Segment::Pages(Some(pages))
}

/// A copy, the last word padded with zeros.
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
