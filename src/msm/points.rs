//! Points as references name them.

use crate::{curve::Group, device::Span};

/// References have a sign in the top bit.
const NUMBERS: u64 = 1 << 31;

/// The part of `span` from its first point on that has a number: those at a whole multiple of a
/// point's size from the start of the arena. `span` must have a point's size more than it is to
/// hold. `None` where no such point is inside, or its number is too large for a reference.
pub fn whole_points(span: Span<'_, u8>, group: Group) -> Option<(Span<'_, u8>, u32)> {
    let point = group.affine_bytes() as u64;
    let number = span.arena_offset().div_ceil(point);
    let skipped = (number * point - span.arena_offset()) as usize;
    let whole = span.part(skipped, span.len().checked_sub(skipped)?)?;
    let end = number + whole.len() as u64 / point;
    (end > number && end <= NUMBERS).then_some((whole, number as u32))
}
