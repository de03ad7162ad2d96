//! Which windows an MSM uses.

use super::BUCKETS_MAX;
use crate::{
    curve::Group,
    msm::{BITS_MAX, BITS_MIN, Fixed, Sliding, Windows},
};

/// An MSM, whatever its bases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// Of the bases.
    pub group: Group,
    /// Scalars of a vector, and bases; 2^26 at most.
    pub n: u32,
    /// Vectors of scalars over the same bases; 1 at least.
    pub vectors: u32,
}

/// Nanoseconds on one H200, for comparing windows: of a digit that is sorted and added, and of a
/// bucket. Fitted to MSMs of 2^16 to 2^24 with several widths (benches/RESULTS.md).
struct Costs {
    digit: f64,
    /// Of windows that slide: shifting the scalar takes longer, as do points from 26 GB of tables.
    sliding_digit: f64,
    bucket: f64,
    /// A point that the host adds up.
    point: f64,
}

const fn costs(group: Group) -> Costs {
    match group {
        Group::G1 => Costs { digit: 0.275, sliding_digit: 0.29, bucket: 0.85, point: 1_070.0 },
        Group::G2 => Costs { digit: 0.67, sliding_digit: 0.69, bucket: 1.6, point: 3_160.0 },
    }
}

/// What twice as many buckets cost beside, once: one more step of what goes step by step. It tips
/// the balance where few scalars are alone: of 2^10 10 and 11 bits are best, and 12 for 1000
/// vectors.
const DOUBLING: f64 = 50.0;

impl Job {
    /// The windows that take the least time by a model, with at most `tables` tables.
    pub fn windows(&self, tables: u32) -> Windows {
        let tables = tables.max(1);
        let fixed = |bits| {
            let count = Fixed::new(bits, 1, u32::MAX)?.count();
            Windows::fixed(bits, count.div_ceil(tables), tables)
        };
        let sliding = |bits| Windows::sliding(bits).filter(|_| tables >= Sliding::TABLES);
        let kinds = |bits| [fixed(bits), Windows::halving(bits, tables), sliding(bits)];
        let cheapest = self.cheapest((BITS_MIN..=BITS_MAX).flat_map(kinds).flatten());
        cheapest.expect("windows of BITS_MIN bits, a set each, fit every MSM")
    }

    /// The same over bases that there are tables of, for `made`: the tables may be for more bases
    /// than the MSM has. Any windows may slide that way.
    pub fn windows_over(&self, made: Option<&Windows>) -> Windows {
        let alone = self.windows(1);
        let with_tables = match made {
            Some(Windows::Sliding(_)) => {
                self.cheapest((BITS_MIN..=BITS_MAX).filter_map(Windows::sliding))
            }
            Some(Windows::Fixed(fixed)) => Some(Windows::Fixed(*fixed)),
            None => None,
        };
        self.cheapest([alone].into_iter().chain(with_tables)).unwrap_or(alone)
    }

    fn cheapest(&self, all: impl Iterator<Item = Windows>) -> Option<Windows> {
        // One set of one vector can be sorted at all.
        let possible = all.filter(|windows| u64::from(windows.buckets()) <= BUCKETS_MAX);
        possible.min_by(|a, b| self.model_ns(a).total_cmp(&self.model_ns(b)))
    }

    /// What the model says of an MSM with these windows.
    pub fn model_ns(&self, windows: &Windows) -> f64 {
        let Costs { digit, sliding_digit, bucket, point } = costs(self.group);
        let digit = if windows.slide() { sliding_digit } else { digit };
        let digits = f64::from(self.n) * windows.digits_mean();
        let buckets = f64::from(windows.sets()) * f64::from(windows.buckets());
        let lg_buckets = f64::from(windows.buckets()).log2();
        // Three times the terms that there would be, and these are added up by the host.
        let host = if windows.halve() { 2.0 * lg_buckets * point } else { 0.0 };
        f64::from(self.vectors) * (digits * digit + buckets * bucket + host) + lg_buckets * DOUBLING
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(lg_n: u32) -> Job {
        Job { group: Group::G1, n: 1 << lg_n, vectors: 1 }
    }

    #[test]
    fn windows_slide_where_there_is_every_table() {
        for (lg_n, least, most) in
            [(10, 10, 11), (12, 12, 13), (16, 16, 18), (18, 18, 18), (20, 20, 21)]
        {
            let windows = |tables| job(lg_n).windows(tables);
            assert!(!windows(Sliding::TABLES - 1).slide());
            let sliding = windows(Sliding::TABLES);
            assert!(sliding.slide() && (least..=most).contains(&sliding.bits()), "{sliding:?}");
            // A part of the bases has its own.
            assert_eq!(job(lg_n).windows_over(Windows::sliding(22).as_ref()), sliding);
        }
        let batch = Job { vectors: 1000, ..job(10) };
        assert_eq!(batch.windows(Sliding::TABLES), Windows::sliding(12).expect("12 bits"));
        let alone = job(4).windows(1);
        assert_eq!(job(4).windows_over(Windows::fixed(24, 1, 11).as_ref()), alone);
        assert_eq!(job(4).windows_over(None), alone);
    }

    /// Where buckets are many, and there is memory for more tables than windows.
    #[test]
    fn windows_halve_where_it_pays() {
        for (lg_n, tables, windows) in [(22, 64, 12), (24, 64, 11), (26, 13, 11)] {
            let halving = job(lg_n).windows(tables);
            assert!(halving.halve() && halving.tables() > windows, "{halving:?}");
            assert_eq!(halving.digits_max(0, 1), windows, "{halving:?}");
        }
        assert!(!job(22).windows(12).halve());
        assert!(!job(14).windows(64).halve());
    }

    /// What was measured best, or within 2 % of it.
    #[test]
    fn windows_are_those_that_measured_best() {
        for (lg_n, tables, best) in [
            (18, 17, 17..=17),
            (20, 13, 20..=20),
            (22, 13, 20..=22),
            (24, 12, 22..=24),
            (16, 1, 12..=13),
            (18, 1, 14..=16),
            (24, 1, 20..=20),
        ] {
            let bits = job(lg_n).windows(tables).bits();
            assert!(best.contains(&bits), "2^{lg_n}, {tables} tables: {bits} bits");
        }
    }
}
