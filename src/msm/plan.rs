//! The passes that an MSM is cut into. Pure: numbers in, numbers out.

mod arriving;
mod cuts;
mod display;
mod job;
mod kept;
mod named;

pub use cuts::Cuts;
pub use job::Job;
pub use kept::{Kept, Memory, Stage};

use super::{
    Windows, accumulate,
    reduce::{self, Weights},
    sort,
};
use crate::{
    curve::Group,
    device::{ALIGN, DeviceLimits},
};

/// Buckets of a pass: one at a time would keep the device from working on them together, and more
/// than this takes memory without being faster.
const BUCKETS_MAX: u64 = 1 << 24;
/// References name 2^31 points, and a pass makes a sum of every one of its digits.
const DIGITS_MAX: u64 = 1 << 30;
/// Up to so many buckets of G1 stay in XYZZ coordinates until they are reduced: an inversion costs
/// more than the reduction's longer additions. Sums on an H200: at 2^16 0.57 to 0.52 ms, at 2^18,
/// of 2^16 buckets too, 1.43 to 1.37 (0.40 and 1.25 were predicted); more buckets were not
/// measured.
const XYZZ_BUCKETS_MAX: u64 = 1 << 16;
/// In G2, slices of XYZZ would take too many registers: so many buckets as are reduced without, and
/// of few references.
const XYZZ_BUCKETS_MAX_G2: u64 = 1 << 14;

/// What a pass may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Bytes of workspace.
    pub bytes: u64,
    /// What kernels may use of the device.
    pub limits: DeviceLimits,
}

/// A part of an MSM that is worked on at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pass {
    /// The first vector, and how many.
    pub vectors: (u32, u32),
    /// The first bucket set, and how many.
    pub sets: (u32, u32),
    /// The first point, and how many.
    pub points: (u32, u32),
    /// Whether its sums are added to what the pass before it left in the buckets.
    pub onto: bool,
    /// Whether no pass adds to its buckets.
    pub last: bool,
}

impl Pass {
    /// The number of its first scalar, counted through all vectors of `n` scalars each. Beyond
    /// 2^32 on devices with more than 128 GiB for scalars.
    pub fn first_scalar(&self, n: u32) -> u64 {
        u64::from(self.vectors.0) * u64::from(n) + u64::from(self.points.0)
    }

    /// How many scalars it takes, of all its vectors.
    pub fn scalars(&self) -> u64 {
        u64::from(self.vectors.1) * u64::from(self.points.1)
    }
}

/// How an MSM is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    job: Job,
    windows: Windows,
    limits: DeviceLimits,
    cuts: Cuts,
    /// Of every pass, but for what is left over.
    vectors: u32,
    sets: u32,
    points: u32,
    /// Passes are of the caller's choice.
    arriving: bool,
}

impl Plan {
    /// The largest passes that fit. `None` where not even the smallest does.
    pub fn new(job: Job, windows: Windows, room: Room) -> Option<Self> {
        Self::cut(job, windows, room, Cuts::default())
    }

    /// The same with other sizes from which on MSMs are cut.
    pub fn cut(job: Job, windows: Windows, room: Room, cuts: Cuts) -> Option<Self> {
        let sets = windows.sets();
        let Job { n, vectors, .. } = job;
        let mut plan = Self {
            job,
            windows,
            limits: room.limits,
            cuts,
            vectors,
            sets,
            points: n.max(1),
            arriving: false,
        };
        // Vectors share no bucket, and sets share no digit: cutting between them costs nothing but
        // launches. Cutting points costs an addition a bucket.
        while !plan.is_possible(room) {
            if plan.vectors > 1 {
                plan.vectors = plan.vectors.div_ceil(2);
            } else if plan.sets > 1 {
                plan.sets = plan.sets.div_ceil(2);
            } else if plan.points > cuts.points_min.max(1) {
                plan.points = plan.points.div_ceil(2).max(cuts.points_min);
            } else {
                return None;
            }
        }
        Some(plan)
    }

    fn is_possible(&self, room: Room) -> bool {
        let largest = self.largest();
        let digits = u64::from(largest.points.1)
            * u64::from(self.windows.digits_max(0, self.sets))
            * u64::from(largest.vectors.1);
        let buckets = u64::from(self.vectors) * self.set_buckets();
        buckets <= BUCKETS_MAX
            && digits <= DIGITS_MAX
            && self.sort(&largest).is_some()
            && self.bytes() <= room.bytes
    }

    /// Bytes of device memory beside scalars and bases.
    pub fn bytes(&self) -> u64 {
        let ends = self.workspace_bytes().saturating_add(self.bytes_out());
        ends.saturating_add(self.bucket_bytes()) + 2 * ALIGN
    }

    fn largest(&self) -> Pass {
        Pass {
            vectors: (0, self.vectors),
            sets: (0, self.sets),
            points: (0, self.points),
            onto: self.points < self.job.n,
            last: true,
        }
    }

    fn set_buckets(&self) -> u64 {
        u64::from(self.sets) * u64::from(self.windows.buckets())
    }

    /// What is planned.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// What kernels may use of the device.
    pub fn limits(&self) -> &DeviceLimits {
        &self.limits
    }

    /// How scalars are cut.
    pub fn windows(&self) -> &Windows {
        &self.windows
    }

    /// The passes, in the order in which they have to run.
    pub fn passes(&self) -> impl Iterator<Item = Pass> + use<> {
        let Self { job, windows, vectors, sets, points, .. } = self.clone();
        let steps = |all: u32, most: u32| {
            (0..all).step_by(most as usize).map(move |first| (first, most.min(all - first)))
        };
        steps(job.vectors, vectors).flat_map(move |vectors| {
            steps(windows.sets(), sets).flat_map(move |sets| {
                let pieces = steps(job.n, points);
                // No point is an MSM too.
                let pieces = pieces.chain((job.n == 0).then_some((0, 0)));
                pieces.map(move |points| {
                    let (onto, last) = (points.0 > 0, points.0 + points.1 == job.n);
                    Pass { vectors, sets, points, onto, last }
                })
            })
        })
    }

    /// How a pass sorts. `None` where it is too large.
    pub(super) fn sort(&self, pass: &Pass) -> Option<sort::Layout> {
        let shape = sort::Shape::new(self.windows, pass.points.1, pass.vectors.1)?;
        let capacity = sort::SortCapacity::of(&self.limits);
        sort::Layout::of(shape.with_sets(pass.sets.0, pass.sets.1)?, capacity)
    }

    fn buckets(&self, pass: &Pass) -> u64 {
        u64::from(pass.vectors.1 * pass.sets.1) * u64::from(self.windows.buckets())
    }

    /// Whether a pass leaves its buckets in XYZZ coordinates: no pass before or after adds to them.
    fn xyzz(&self, pass: &Pass) -> bool {
        let alone = pass.last && !pass.onto && !self.arriving;
        alone
            && match self.job.group {
                Group::G1 => self.buckets(pass) <= XYZZ_BUCKETS_MAX,
                Group::G2 => self.buckets(pass) <= XYZZ_BUCKETS_MAX_G2 && self.sums_whole(pass),
            }
    }

    /// Whether a pass has so few digits that its buckets are summed at once, if they may be XYZZ.
    fn sums_whole(&self, pass: &Pass) -> bool {
        let digits = self.sort(pass).map_or(u64::MAX, |sort| sort.shape().digits_max());
        digits <= self.cuts.whole_digits.into()
    }

    /// How a pass sums its buckets.
    pub(super) fn accumulate(&self, pass: &Pass, digits: u64) -> accumulate::Shape {
        let group = self.job.group;
        let buckets = self.buckets(pass);
        let usual = accumulate::Balance::of(group, digits as u32);
        accumulate::Shape {
            group,
            digits: digits as u32,
            buckets: buckets as u32,
            onto: pass.onto,
            xyzz: self.xyzz(pass),
            balance: accumulate::Balance {
                whole_digits: self.cuts.whole_digits,
                level_min: self.cuts.level_min.unwrap_or(usual.level_min),
                ..usual
            },
        }
    }

    /// How a pass sums up its buckets.
    pub(super) fn reduce(&self, pass: &Pass) -> reduce::Plan {
        let (first, count) = pass.sets;
        let base = self.windows.shift(first);
        let shape = reduce::Shape {
            group: self.job.group,
            vectors: pass.vectors.1,
            shifts: (first..first + count).map(|set| self.windows.shift(set) - base).collect(),
            buckets: self.windows.buckets(),
            weights: if self.windows.slide() { Weights::Odd } else { Weights::All },
            xyzz: self.xyzz(pass),
        };
        reduce::Plan::new(&shape, &reduce::Tuning::on(&self.limits, self.job.group))
    }

    /// Where a pass has what in its workspace.
    pub(super) fn layout(&self, pass: &Pass) -> Option<Layout> {
        let sort = self.sort(pass)?;
        let digits = sort.shape().digits_max();
        let accumulate = self.accumulate(pass, digits);
        let reduce = self.reduce(pass);
        let mut end = 0_u64;
        let mut region = |bytes: u64| {
            let start = end;
            end = (end + bytes).next_multiple_of(ALIGN);
            start
        };
        let references = region(4 * digits);
        let starts = region(4 * (u64::from(accumulate.buckets) + 1));
        // One stage's workspace after the other's.
        let most = sort.bytes().max(accumulate.bytes(&self.limits)).max(reduce.workspace_bytes());
        let scratch = region(most);
        Some(Layout { sort, accumulate, reduce, references, starts, scratch, bytes: end })
    }

    /// Bytes for the buckets of a pass.
    pub fn bucket_bytes(&self) -> u64 {
        // One point more, so that the first one can lie where a reference can name it; and as much
        // again where buckets may be XYZZ.
        let buckets = u64::from(self.vectors) * self.set_buckets();
        (buckets + buckets.min(XYZZ_BUCKETS_MAX) + 1) * self.job.group.affine_bytes() as u64
    }

    /// Bytes of workspace that [`super::Msm::pass`] wants, whichever pass.
    pub fn workspace_bytes(&self) -> u64 {
        // Not the largest's: a smaller pass may be sorted or summed another way.
        self.passes().map(|pass| self.pass_bytes(&pass)).max().unwrap_or(u64::MAX)
    }

    /// Bytes of workspace that this pass wants.
    pub fn pass_bytes(&self, pass: &Pass) -> u64 {
        self.layout(pass).map_or(u64::MAX, |layout| layout.bytes)
    }

    /// Bytes that all passes leave for [`super::Msm::finish`].
    pub fn bytes_out(&self) -> u64 {
        self.ends().map(|(_, bytes)| bytes).sum()
    }

    /// The passes that leave something, and how much.
    pub(super) fn ends(&self) -> impl Iterator<Item = (Pass, u64)> {
        let ends = self.passes().filter(|pass| pass.last);
        ends.map(|pass| (pass, self.reduce(&pass).bytes_out().next_multiple_of(ALIGN)))
    }
}

/// A pass's stages, and where the regions of its workspace begin.
pub(super) struct Layout {
    pub sort: sort::Layout,
    pub accumulate: accumulate::Shape,
    pub reduce: reduce::Plan,
    pub references: u64,
    pub starts: u64,
    pub scratch: u64,
    pub bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(job: Job, tables: u32, bytes: u64) -> Option<Plan> {
        let limits = DeviceLimits::H200;
        Plan::new(job, job.windows(tables, &limits), Room { bytes, limits })
    }

    fn job(n: u32, vectors: u32) -> Job {
        Job { group: Group::G1, n, vectors }
    }

    #[test]
    fn passes_take_every_scalar_of_every_set_once() {
        for (job, tables, bytes) in [
            (job(0, 1), 1, 8 << 30),
            (job(1, 3), 64, 8 << 30),
            (job(1 << 20, 1), 1, 2 << 30),
            (job(1 << 20, 1), 64, 1 << 30),
            (job(1 << 10, 1000), 64, 1 << 30),
            (job(1 << 26, 1), 12, 24 << 30),
            (job((1 << 22) + 3, 1), 64, 24 << 30),
        ] {
            let plan = plan(job, tables, bytes).expect("room");
            assert!(plan.bytes() <= bytes, "{plan}");
            let mut taken = 0;
            for pass in plan.passes() {
                let Pass { vectors, sets, points, onto, last } = pass;
                assert_eq!((onto, last), (points.0 > 0, points.0 + points.1 == job.n));
                taken += u64::from(vectors.1) * u64::from(sets.1) * u64::from(points.1);
                assert!(plan.layout(&pass).is_some_and(|l| l.bytes <= plan.workspace_bytes()));
            }
            let all = u64::from(job.vectors) * u64::from(plan.windows().sets()) * u64::from(job.n);
            assert_eq!(taken, all, "{plan}");
        }
        assert!(plan(job(1 << 24, 1), 1, 1 << 20).is_none());
    }

    #[test]
    fn scalars_are_counted_beyond_32_bits() {
        let (vectors, points) = ((300, 100), (1 << 25, 1 << 25));
        let pass = Pass { vectors, sets: (0, 1), points, onto: true, last: true };
        assert_eq!(pass.first_scalar(1 << 26), (300 << 26) + (1 << 25));
        assert_eq!(pass.scalars(), 100 << 25);
    }

    #[test]
    fn plans_say_how_windows_lie() {
        for (lg_n, tables, begins, ends) in [
            (20, 300, "sliding windows of 2", " bits, 255 tables"),
            (20, 13, "13 windows of 20 bits", ", 13 tables"),
            (10, 1, "", ", no tables"),
        ] {
            let plan = plan(job(1 << lg_n, 1), tables, 64 << 30).expect("room").to_string();
            assert!(plan.starts_with(begins) && plan.ends_with(ends), "{plan}");
        }
    }
}
