//! Thresholds for splitting MSMs.

use crate::msm::accumulate;

/// The most buckets of a pass: enough sets at a time to keep the device busy. Not tuned.
pub(super) const BUCKETS_MAX: u64 = 1 << 24;
/// MSMs of at least this many scalars are computed while scalars are received: a link carries fewer
/// in less time than one more pass costs (`benches/experiments/msm.md`).
pub(super) const STREAMED_SCALARS_MIN: u32 = 1 << 20;
/// Launch overhead would dominate smaller passes.
const POINTS_MIN: u32 = 1 << 12;

/// Thresholds for splitting MSMs. The default is for devices; with smaller values, tests run the
/// same passes with less work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SplitThresholds {
    /// The fewest scalars of a vector for which passes start before all scalars are received.
    pub streamed_scalars_min: u32,
    /// The fewest points of a pass if memory is short; at least 1.
    pub points_min: u32,
    /// The most references of a pass for which it sums whole buckets: that takes less memory than
    /// passes over fewer points would.
    pub whole_bucket_digits_max: u32,
    /// The fewest additions of a level of the tree; `None` for the tuned value. A low value makes
    /// small MSMs use the tree, too, as the self-test does.
    pub level_additions_min: Option<u32>,
}

impl SplitThresholds {
    pub const USUAL: Self = Self {
        streamed_scalars_min: STREAMED_SCALARS_MIN,
        points_min: POINTS_MIN,
        whole_bucket_digits_max: accumulate::WHOLE_BUCKET_REFERENCES_MAX,
        level_additions_min: None,
    };
}

impl Default for SplitThresholds {
    fn default() -> Self {
        Self::USUAL
    }
}
