//! Chooses the windows of an MSM by a cost model.

use super::thresholds::{BUCKETS_MAX, STREAMED_SCALARS_MIN};
use crate::{
    curve::Group,
    device::DeviceLimits,
    msm::{
        BITS_MAX, BITS_MIN, FixedWindows, RadixDigits, Recoding, SlidingWindows,
        accumulate::{self, WHOLE_BUCKET_REFERENCES_MAX},
        launch::PerGroup,
    },
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MsmSize {
    pub group: Group,
    /// The number of bases, and of scalars per vector; at most 2^26.
    pub n: u32,
    /// The number of scalar vectors over the same bases; at least 1.
    pub vectors: u32,
}

/// Costs in nanoseconds on an H200, to compare windows, fitted to MSMs of 2^10 to 2^26 scalars with
/// several window sizes; the fits were not kept (`benches/experiments/msm.md`). Throughput costs
/// scale with the number of multiprocessors; the latency of a step does not.
struct WindowCosts {
    /// Sorting and adding a digit; zero digits of fixed windows count.
    digit: f64,
    /// A digit of sliding windows: each scalar is shifted, and some buckets are fuller than others.
    sliding: SlidingCosts,
    bucket: f64,
    /// One more addition per bucket if scalars are enough to arrive in several passes.
    extra_pass: f64,
    /// Added to `digit` if there are fewer than two buckets per share: shares are then merged.
    share_merge: f64,
    /// One more sequential step for each doubling of the buckets. Below `STEP_BUCKETS_MIN` buckets
    /// the steps do not get fewer.
    sequential_step: f64,
}

struct SlidingCosts {
    /// In an MSM of fewer digits than `TREE_DIGITS_MIN`.
    few_digits: f64,
    many_digits: f64,
}

impl WindowCosts {
    fn of(group: Group, limits: &DeviceLimits) -> Self {
        let slower = f64::from(DeviceLimits::H200.multiprocessors)
            / f64::from(limits.multiprocessors.max(1));
        let sliding = |few: f64, many: f64| SlidingCosts {
            few_digits: few * slower,
            many_digits: many * slower,
        };
        let (digit, sliding, bucket, share_merge) =
            match (group, accumulate::has_tree(group, limits)) {
                (Group::G1, true) => (0.26, sliding(0.285, 0.275), 0.80, 0.09),
                (Group::G1, false) => (0.44, sliding(0.47, 0.455), 1.3, 0.0),
                (Group::G2, true) => (0.67, sliding(0.74, 0.72), 1.6, 0.0),
                (Group::G2, false) => (1.42, sliding(1.52, 1.48), 2.5, 0.0),
            };
        Self {
            digit: digit * slower,
            sliding,
            bucket: bucket * slower,
            extra_pass: PerGroup { g1: 0.30, g2: 0.0 }.of(group) * slower,
            share_merge: share_merge * slower,
            sequential_step: PerGroup { g1: 400.0, g2: 1_000.0 }.of(group),
        }
    }
}

/// Below `TREE_DIGITS_MIN` digits an MSM is summed by load-balanced accumulation with 2^15 shares,
/// not by the tree; below `SHARE_DIGITS_MIN` teams sum whole buckets.
const TREE_DIGITS_MIN: f64 = (1 << 21) as f64;
const SHARE_DIGITS_MIN: f64 = WHOLE_BUCKET_REFERENCES_MAX as f64;
/// Two buckets per share.
const MERGED_BUCKETS_MAX: f64 = (1 << 16) as f64;
const STEP_BUCKETS_MIN: f64 = (1 << 7) as f64;

impl MsmSize {
    /// The windows that are fastest by the cost model, with at most `tables` tables.
    pub fn choose_windows(&self, tables: u32, limits: &DeviceLimits) -> Recoding {
        let tables = tables.max(1);
        let fixed = |bits| {
            let count = FixedWindows::new(bits, 1, u32::MAX)?.count;
            Recoding::fixed(bits, count.div_ceil(tables), tables)
        };
        let sliding = |bits| Recoding::sliding(bits).filter(|_| tables >= SlidingWindows::TABLES);
        let kinds = |bits| [fixed(bits), sliding(bits)];
        let radices = RadixDigits::ALL.into_iter().filter(|radix| radix.count <= tables);
        let radices = radices.map(Recoding::Radix);
        let all = (BITS_MIN..=BITS_MAX).flat_map(kinds).flatten().chain(radices);
        let cheapest = self.cheapest(all, limits);
        cheapest.expect("windows of BITS_MIN bits, a set each, fit every MSM")
    }

    /// The fastest windows for bases that have tables for the windows `tables`, possibly for more
    /// bases than the MSM uses. Tables for sliding windows serve every sliding width.
    pub fn choose_windows_for_tables(
        &self,
        tables: Option<&Recoding>,
        limits: &DeviceLimits,
    ) -> Recoding {
        let alone = self.choose_windows(1, limits);
        let with_tables = match tables {
            Some(Recoding::Sliding(_)) => {
                self.cheapest((BITS_MIN..=BITS_MAX).filter_map(Recoding::sliding), limits)
            }
            other => other.copied(),
        };
        self.cheapest([alone].into_iter().chain(with_tables), limits).unwrap_or(alone)
    }

    fn cheapest(
        &self,
        all: impl Iterator<Item = Recoding>,
        limits: &DeviceLimits,
    ) -> Option<Recoding> {
        // A single set of a single vector must be sortable.
        let possible = all.filter(|windows| u64::from(windows.buckets()) <= BUCKETS_MAX);
        let costs = WindowCosts::of(self.group, limits);
        let modelled = possible.map(|windows| (self.cost_ns(&windows, &costs), windows));
        modelled.min_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, windows)| windows)
    }

    /// The modelled time of an MSM with these windows, in nanoseconds.
    pub fn model_ns(&self, windows: &Recoding, limits: &DeviceLimits) -> f64 {
        self.cost_ns(windows, &WindowCosts::of(self.group, limits))
    }

    fn cost_ns(&self, windows: &Recoding, costs: &WindowCosts) -> f64 {
        let (mut digit, mut bucket) = (costs.digit, costs.bucket);
        let (n, vectors) = (f64::from(self.n), f64::from(self.vectors));
        let digits = n * windows.digits_mean();
        let set_buckets = f64::from(windows.buckets());
        let all_digits = vectors * digits;
        if windows.is_sliding() {
            let SlidingCosts { few_digits, many_digits } = costs.sliding;
            digit = if all_digits < TREE_DIGITS_MIN { few_digits } else { many_digits };
        }
        // Without tables, the costs were fitted with all scalars resident.
        if windows.sets() == 1 {
            // Up to this many scalars arrive in one pass from all but slow senders.
            bucket += if self.n > STREAMED_SCALARS_MIN { costs.extra_pass } else { 0.0 };
            let has_merges = (SHARE_DIGITS_MIN..TREE_DIGITS_MIN).contains(&all_digits)
                && vectors * set_buckets < MERGED_BUCKETS_MAX;
            digit += if has_merges { costs.share_merge } else { 0.0 };
        }
        let steps = set_buckets.max(STEP_BUCKETS_MIN).log2() * costs.sequential_step;
        let buckets = f64::from(windows.sets()) * set_buckets;
        vectors * (digits * digit + buckets * bucket) + steps
    }
}
