//! Chooses the windows of an MSM by a cost model.

use super::{BUCKETS_MAX, thresholds::STREAMED_SCALARS_MIN};
use crate::{
    curve::Group,
    device::DeviceLimits,
    msm::{
        BITS_MAX, BITS_MIN, FixedWindows, RadixDigits, Recoding, SlidingWindows,
        accumulate::{self, WHOLE_BUCKET_REFERENCES_MAX},
    },
};

/// The group and size of an MSM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MsmSize {
    /// The group of the bases.
    pub group: Group,
    /// The number of bases, and of scalars per vector; at most 2^26.
    pub n: u32,
    /// The number of scalar vectors over the same bases; at least 1.
    pub vectors: u32,
}

/// Costs in nanoseconds on an H200, to compare windows, fitted to MSMs of 2^10 to 2^26 scalars with
/// several window sizes (benches/RESULTS.md). Throughput costs scale with the number of
/// multiprocessors; the latency of a step does not.
struct WindowCosts {
    /// Sorting and adding a digit; zero digits of fixed windows count.
    digit: f64,
    /// A digit of sliding windows, in an MSM of fewer digits than `TREE_DIGITS_MIN` and of more:
    /// each scalar is shifted, and some buckets are fuller than others.
    sliding: [f64; 2],
    bucket: f64,
    /// One more addition per bucket if scalars are enough to arrive in several passes.
    extra_pass: f64,
    /// Added to `digit` if there are fewer than two buckets per share: shares are then merged.
    share_merge: f64,
    /// One more sequential step for each doubling of the buckets. Below `STEP_BUCKETS_MIN` buckets
    /// the steps do not get fewer.
    sequential_step: f64,
}

impl WindowCosts {
    fn of(group: Group, limits: &DeviceLimits) -> Self {
        let on_h200 = match (group, accumulate::has_tree(group, limits)) {
            (Group::G1, true) => Self {
                digit: 0.26,
                sliding: [0.285, 0.275],
                bucket: 0.80,
                extra_pass: 0.30,
                share_merge: 0.09,
                sequential_step: 400.0,
            },
            (Group::G1, false) => Self {
                digit: 0.44,
                sliding: [0.47, 0.455],
                bucket: 1.3,
                extra_pass: 0.30,
                share_merge: 0.0,
                sequential_step: 400.0,
            },
            (Group::G2, true) => Self {
                digit: 0.67,
                sliding: [0.74, 0.72],
                bucket: 1.6,
                extra_pass: 0.0,
                share_merge: 0.0,
                sequential_step: 1_000.0,
            },
            (Group::G2, false) => Self {
                digit: 1.42,
                sliding: [1.52, 1.48],
                bucket: 2.5,
                extra_pass: 0.0,
                share_merge: 0.0,
                sequential_step: 1_000.0,
            },
        };
        let slower = f64::from(DeviceLimits::H200.multiprocessors)
            / f64::from(limits.multiprocessors.max(1));
        Self {
            digit: on_h200.digit * slower,
            sliding: on_h200.sliding.map(|cost| cost * slower),
            bucket: on_h200.bucket * slower,
            extra_pass: on_h200.extra_pass * slower,
            share_merge: on_h200.share_merge * slower,
            sequential_step: on_h200.sequential_step,
        }
    }
}

/// Below `TREE_DIGITS_MIN` digits an MSM is summed by load-balanced accumulation with 2^15 shares,
/// not by the tree; below `SHARE_DIGITS_MIN` teams sum whole buckets.
const TREE_DIGITS_MIN: f64 = (1 << 21) as f64;
const SHARE_DIGITS_MIN: f64 = WHOLE_BUCKET_REFERENCES_MAX as f64;
/// Radices with more windows are for tests.
const RADIX_WINDOWS_MAX: u32 = 12;
/// Two buckets per share.
const MERGED_BUCKETS_MAX: f64 = (1 << 16) as f64;
const STEP_BUCKETS_MIN: f64 = (1 << 7) as f64;

impl MsmSize {
    /// The windows that are fastest by the cost model, with at most `tables` tables.
    pub fn choose_windows(&self, tables: u32, limits: &DeviceLimits) -> Recoding {
        let tables = tables.max(1);
        let fixed = |bits| {
            let count = FixedWindows::new(bits, 1, u32::MAX)?.count();
            Recoding::fixed(bits, count.div_ceil(tables), tables)
        };
        let sliding = |bits| Recoding::sliding(bits).filter(|_| tables >= SlidingWindows::TABLES);
        let kinds = |bits| [fixed(bits), sliding(bits)];
        let measured = |radix: &RadixDigits| radix.count() <= RADIX_WINDOWS_MAX.min(tables);
        let radix = RadixDigits::all().filter(measured).map(Recoding::Radix);
        let all = (BITS_MIN..=BITS_MAX).flat_map(kinds).flatten().chain(radix);
        let cheapest = self.cheapest(all, limits);
        cheapest.expect("windows of BITS_MIN bits, a set each, fit every MSM")
    }

    /// The fastest windows for bases that have tables for the windows `made`, possibly for more
    /// bases than the MSM uses. Tables for sliding windows serve every sliding width.
    pub fn choose_windows_for_tables(
        &self,
        made: Option<&Recoding>,
        limits: &DeviceLimits,
    ) -> Recoding {
        let alone = self.choose_windows(1, limits);
        let with_tables = match made {
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
        possible.min_by(|a, b| self.model_ns(a, limits).total_cmp(&self.model_ns(b, limits)))
    }

    /// The modelled time of an MSM with these windows, in nanoseconds.
    pub fn model_ns(&self, windows: &Recoding, limits: &DeviceLimits) -> f64 {
        let WindowCosts {
            mut digit,
            sliding,
            mut bucket,
            extra_pass: onto,
            share_merge: joined,
            sequential_step: step,
        } = WindowCosts::of(self.group, limits);
        let (n, vectors) = (f64::from(self.n), f64::from(self.vectors));
        let (digits, own) = (n * windows.digits_mean(), f64::from(windows.buckets()));
        let all = vectors * digits;
        if windows.is_sliding() {
            digit = sliding[usize::from(all >= TREE_DIGITS_MIN)];
        }
        // Without tables, the costs were fitted with all scalars resident.
        if windows.sets() == 1 {
            // Up to this many scalars arrive in one pass from all but slow senders.
            bucket += if self.n > STREAMED_SCALARS_MIN { onto } else { 0.0 };
            let shared = (SHARE_DIGITS_MIN..TREE_DIGITS_MIN).contains(&all)
                && vectors * own < MERGED_BUCKETS_MAX;
            digit += if shared { joined } else { 0.0 };
        }
        let once = own.max(STEP_BUCKETS_MIN).log2() * step;
        let buckets = f64::from(windows.sets()) * own;
        vectors * (digits * digit + buckets * bucket) + once
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const H200: DeviceLimits = DeviceLimits::H200;

    fn job(group: Group, lg_n: u32) -> MsmSize {
        MsmSize { group, n: 1 << lg_n, vectors: 1 }
    }

    /// `MANY` is what memory usually allows; `ALL` suffices for every kind of windows.
    const MANY: u32 = 64;
    const ALL: u32 = SlidingWindows::TABLES;

    /// Best or within 2 % of the best by measurement, also if scalars arrive in two passes.
    #[test]
    fn chooses_the_windows_that_measured_fastest() {
        let fixed = |bits, tables| Recoding::fixed(bits, 1, tables);
        let (sliding, radix) = (Recoding::sliding, Recoding::radix);
        for (group, lg_n, tables, best) in [
            (Group::G1, 10, ALL, sliding(10)),
            (Group::G1, 12, ALL, sliding(13)),
            (Group::G1, 14, ALL, sliding(15)),
            (Group::G1, 16, ALL, fixed(17, MANY)),
            (Group::G1, 18, ALL, sliding(18)),
            (Group::G1, 19, ALL, sliding(19)),
            (Group::G1, 20, ALL, sliding(20)),
            (Group::G1, 16, MANY, fixed(17, MANY)),
            (Group::G1, 18, MANY, fixed(17, MANY)),
            (Group::G1, 20, MANY, fixed(20, MANY)),
            (Group::G1, 21, MANY, fixed(20, MANY)),
            (Group::G1, 22, MANY, radix(12)),
            (Group::G1, 23, MANY, radix(12)),
            (Group::G1, 24, MANY, radix(11)),
            (Group::G1, 26, 13, radix(11)),
            (Group::G2, 10, ALL, sliding(11)),
            (Group::G2, 12, ALL, sliding(13)),
            (Group::G2, 16, ALL, fixed(16, MANY)),
            (Group::G2, 18, ALL, sliding(19)),
            (Group::G2, 20, MANY, fixed(20, MANY)),
            (Group::G2, 22, MANY, radix(12)),
            (Group::G2, 24, MANY, radix(11)),
        ] {
            let found = job(group, lg_n).choose_windows(tables, &H200);
            assert_eq!(Some(found), best, "2^{lg_n}, {tables} tables");
        }
        let batch = MsmSize { vectors: 1000, ..job(Group::G1, 10) };
        assert_eq!(Some(batch.choose_windows(ALL, &H200)), sliding(12));
        for (lg_n, bits) in [(16, 13), (18, 15), (20, 16), (22, 17), (24, 20)] {
            assert_eq!(
                job(Group::G1, lg_n).choose_windows(1, &H200).bits(),
                bits,
                "2^{lg_n}, no tables"
            );
        }
    }

    #[test]
    fn never_chooses_more_tables_than_allowed() {
        for lg_n in 0..=26 {
            for tables in [1, 2, 5, 11, 12, 14, MANY, ALL - 1, ALL] {
                let windows = job(Group::G1, lg_n).choose_windows(tables, &H200);
                assert!(windows.tables() <= tables, "2^{lg_n}: {windows:?}");
            }
        }
    }

    /// Holds for any number of scalars and tables.
    #[test]
    fn uses_existing_tables() {
        for (lg_n, tables) in (6..=26).flat_map(|lg_n| [(lg_n, MANY), (lg_n, ALL)]) {
            for group in [Group::G1, Group::G2] {
                let job = job(group, lg_n);
                let windows = job.choose_windows(tables, &H200);
                assert_eq!(
                    job.choose_windows_for_tables(Some(&windows), &H200),
                    windows,
                    "2^{lg_n}"
                );
            }
        }
    }

    #[test]
    fn ranges_of_bases_get_their_own_windows() {
        let over = |lg_n, made: Option<Recoding>| {
            job(Group::G1, lg_n).choose_windows_for_tables(made.as_ref(), &H200)
        };
        assert_eq!(Some(over(10, Recoding::sliding(22))), Recoding::sliding(10));
        assert_eq!(Some(over(18, Recoding::sliding(22))), Recoding::sliding(18));
        assert_eq!(Some(over(20, Recoding::fixed(20, 1, 13))), Recoding::fixed(20, 1, 13));
        let alone = job(Group::G1, 4).choose_windows(1, &H200);
        assert_eq!(over(4, Recoding::fixed(24, 1, 11)), alone);
        assert_eq!(over(4, None), alone);
    }
}
