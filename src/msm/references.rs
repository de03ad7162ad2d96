//! Indices of points, as references use them.

use crate::{curve::Group, device::DeviceSlice};

/// Indices below this fit a reference, whose top bit is the sign.
const REFERENCES_MAX: u64 = 1 << 31;

/// The part of `span` from the first address whose offset in the arena is a multiple of a point's
/// size, and the index of the point there. To hold n points, `span` must have room for n + 1.
/// `None` if `span` has no such address or an index does not fit a reference.
pub fn align_to_points(
    span: DeviceSlice<'_, u8>,
    group: Group,
) -> Option<(DeviceSlice<'_, u8>, u32)> {
    let point = group.affine_bytes() as u64;
    let number = span.arena_offset().div_ceil(point);
    let skipped = (number * point - span.arena_offset()) as usize;
    let whole = span.slice(skipped, span.len().checked_sub(skipped)?)?;
    let end = number + whole.len() as u64 / point;
    (end > number && end <= REFERENCES_MAX).then_some((whole, number as u32))
}
