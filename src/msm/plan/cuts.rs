//! From which sizes on MSMs are cut.

use crate::msm::accumulate;

/// Longer vectors are worked on while they come. 2^20 scalars are 0.6 ms of a link, for which one
/// more pass pays only where the sender is slower (benches/RESULTS.md).
pub(super) const ARRIVING_MIN: u32 = 1 << 20;
/// Smaller passes would be launches and little else.
const POINTS_MIN: u32 = 1 << 12;

/// From which sizes on MSMs are cut. The default is for devices; smaller ones show the same passes
/// with less work in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cuts {
    /// Scalars of a vector at least, for passes to take them as they arrive.
    pub arriving_min: u32,
    /// Points of a pass at least, where memory is short; 1 at least.
    pub points_min: u32,
    /// References of a pass at most, for its buckets to be summed whole: that takes less memory
    /// than passes over fewer points would.
    pub whole_digits: u32,
    /// Additions of a level of the tree at least; `None` for what measured best. If this is low,
    /// small MSMs have a tree, too: the self-test sets it.
    pub level_min: Option<u32>,
}

impl Cuts {
    /// Those that devices serve with.
    pub const USUAL: Self = Self {
        arriving_min: ARRIVING_MIN,
        points_min: POINTS_MIN,
        whole_digits: accumulate::WHOLE_DIGITS,
        level_min: None,
    };
}

impl Default for Cuts {
    fn default() -> Self {
        Self::USUAL
    }
}
