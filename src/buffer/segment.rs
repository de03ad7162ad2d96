//! Pieces of memory that the bytes of a payload lie in.

use std::sync::{Mutex, OnceLock, PoisonError};

use memmap2::{Advice, MmapMut};
use zeroize::{Zeroize, Zeroizing};

/// Bytes of a segment of a large payload: one huge page. Fresh memory page by page took longer than
/// the copy into it: 64 MiB in 42 ms, in huge pages 20 ms, and 14 ms where it was there before.
pub(super) const SEGMENT: usize = 2 << 20;

/// Wiped segments that are kept for the next payload. The system zeroes what it hands out and we
/// wipe what we hand back; with a few kept, what streams through is wiped once. 64 MiB, or the part
/// of the host's memory that a large MSM's scalars are: 1 GiB of 128.
const SPARE_MIN: usize = 32;
const SPARE_PART: u64 = 128;

static SPARE: Mutex<Vec<MmapMut>> = Mutex::new(Vec::new());

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
}

impl Segment {
    /// Puts `bytes` at `offset` of a segment of `size` bytes.
    pub fn write(&mut self, size: usize, offset: usize, bytes: &[u8]) {
        if matches!(self, Self::Absent) {
            *self = match size {
                SEGMENT => pages(),
                // The usual chunk: no need to zero it first.
                _ if bytes.len() == size => return *self = Self::Heap(words(bytes)),
                _ => zeros(size),
            };
        }
        if let Some(memory) = self.bytes_mut() {
            memory[offset..offset + bytes.len()].copy_from_slice(bytes);
        }
    }

    /// The bytes from `offset` on; none where nothing has come.
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
