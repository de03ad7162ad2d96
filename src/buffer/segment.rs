//! Segments of memory that hold the bytes of a payload.

use memmap2::MmapMut;
use zeroize::Zeroizing;

use super::{PayloadPool, pool::SEGMENT_BYTES};

/// Memory of a segment, zeroed on drop.
#[derive(Default)]
pub(super) enum Segment {
    /// No bytes have been received. Memory is allocated on arrival, not on announcement.
    #[default]
    Absent,
    /// A slot of a tail that fills no group, from the allocator, which keeps the memory warm.
    /// 64-bit words, since wiping works on words.
    Heap(Zeroizing<Box<[u64]>>),
    Pages(SegmentPages),
}

/// Pages of the pool's, which drop returns.
pub(super) struct SegmentPages {
    /// `None` during drop.
    pages: Option<MmapMut>,
    pool: PayloadPool,
}

impl Segment {
    /// Writes `bytes` at `offset` of a segment of `size` bytes.
    pub fn write(&mut self, pool: &PayloadPool, size: usize, offset: usize, bytes: &[u8]) {
        if matches!(self, Self::Absent) {
            let pages = (size == SEGMENT_BYTES).then(|| pool.take_pages()).flatten();
            *self = match pages {
                pages @ Some(_) => Self::Pages(SegmentPages { pages, pool: pool.clone() }),
                // The usual case, a whole chunk: avoid zeroing it first.
                None if bytes.len() == size => return *self = Self::Heap(words(bytes)),
                // If the system has no pages, leave the failure to the allocator to handle.
                None => Self::Heap(Zeroizing::new(vec![0; size.div_ceil(8)].into())),
            };
        }
        let memory = match self {
            Self::Heap(words) => bytemuck::cast_slice_mut(words),
            Self::Pages(SegmentPages { pages: Some(pages), .. }) => pages,
            Self::Absent | Self::Pages(_) => return,
        };
        memory[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    /// `len` bytes from `offset` on; empty if the segment has received none.
    pub fn bytes(&self, offset: usize, len: usize) -> &[u8] {
        let memory: &[u8] = match self {
            Self::Heap(words) => bytemuck::cast_slice(words),
            Self::Pages(SegmentPages { pages: Some(pages), .. }) => pages,
            Self::Absent | Self::Pages(_) => &[],
        };
        memory.get(offset..offset + len).unwrap_or_default()
    }
}

impl Drop for SegmentPages {
    fn drop(&mut self) {
        if let Some(pages) = self.pages.take() {
            self.pool.return_pages(pages);
        }
    }
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
