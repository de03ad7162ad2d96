//! References to points, and their indices.

use crate::{curve::Group, device::DeviceSlice};

/// Indices below this fit a reference, whose top bit is the sign.
const REFERENCES_MAX: u64 = 1 << 31;

/// The indices of bases and their tables: base i of table t has the index `first + t * stride + i`,
/// below 2^31.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BasesLocation {
    pub first: u32,
    /// Points from one table's start to the next one's; ignored if there is one table.
    pub stride: u32,
}

impl BasesLocation {
    pub(super) fn word(self) -> u64 {
        u64::from(self.stride) << 32 | u64::from(self.first)
    }
}

/// References sorted by bucket, in any order within a bucket.
#[derive(Clone, Copy)]
pub struct SortedReferences<'a> {
    /// At least as many words as the launch bound on digits. Bit 31 marks a point that is
    /// subtracted.
    pub references: DeviceSlice<'a, u32>,
    /// At least one word more than buckets, ascending from 0: bucket b's references are
    /// `starts[b]..starts[b + 1]`.
    pub starts: DeviceSlice<'a, u32>,
}

/// Memory whose points references can name: its offset in the arena is a multiple of their size.
#[derive(Clone, Copy)]
pub struct AlignedPoints<'a> {
    pub span: DeviceSlice<'a, u8>,
    /// The index of the first point.
    pub first: u32,
}

impl<'a> AlignedPoints<'a> {
    /// The aligned part of `span`, which must have room for n + 1 points to hold n. `None` if it
    /// has no aligned address or an index does not fit a reference.
    pub fn of(span: DeviceSlice<'a, u8>, group: Group) -> Option<Self> {
        let point = group.affine_bytes() as u64;
        let first = span.arena_offset().div_ceil(point);
        let skipped = (first * point - span.arena_offset()) as usize;
        let span = span.slice(skipped, span.len().checked_sub(skipped)?)?;
        let end = first + span.len() as u64 / point;
        (end > first && end <= REFERENCES_MAX).then_some(Self { span, first: first as u32 })
    }
}
