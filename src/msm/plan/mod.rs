//! Splits an MSM into passes. Pure: numbers in, numbers out.

mod display;
mod named;
mod resident;
mod streaming;
mod thresholds;
mod window_choice;

pub use resident::{BaseMemory, ResidentPlan, TableStage};
pub use thresholds::SplitThresholds;
pub use window_choice::MsmSize;

use super::{
    Recoding, accumulate,
    reduce::{self, BucketWeights},
    sort,
};
use crate::{
    curve::Group,
    device::{ALIGN, DeviceLimits},
};

/// The most buckets of a pass. Several sets at a time keep the device busy; more buckets than this
/// take memory without being faster.
const BUCKETS_MAX: u64 = 1 << 24;
/// A reference can name 2^31 points, and a pass may create a sum for every digit.
const DIGITS_MAX: u64 = 1 << 30;
/// At most this many G1 buckets stay in XYZZ coordinates until the bucket reduction: an inversion
/// costs more than its longer additions. 9 % faster at 2^16 scalars and 4 % at 2^18 on an H200;
/// more buckets were not measured.
const XYZZ_BUCKETS_MAX: u64 = 1 << 16;
/// The same bound for G2: slices in XYZZ would need too many registers, so buckets must be few
/// enough to need no slices. References must be few, too.
const XYZZ_BUCKETS_MAX_G2: u64 = 1 << 14;

/// Memory and device limits for the passes of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MsmBudget {
    /// Bytes of workspace.
    pub bytes: u64,
    /// The limits of the device.
    pub limits: DeviceLimits,
}

/// A part of an MSM that is computed with one sequence of launches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MsmPass {
    /// The first vector, and the number of vectors.
    pub vectors: (u32, u32),
    /// The first bucket set, and the number of sets.
    pub sets: (u32, u32),
    /// The first point, and the number of points.
    pub points: (u32, u32),
    /// Whether its sums are added to the buckets of the previous pass.
    pub accumulate: bool,
    /// Whether it completes its buckets, which are then reduced.
    pub reduces: bool,
}

impl MsmPass {
    /// The index of its first scalar over all vectors of `n` scalars each. It can exceed 2^32 on
    /// devices with more than 128 GiB for scalars.
    pub fn first_scalar(&self, n: u32) -> u64 {
        u64::from(self.vectors.0) * u64::from(n) + u64::from(self.points.0)
    }

    /// The number of scalars it covers, over all its vectors.
    pub fn scalars(&self) -> u64 {
        u64::from(self.vectors.1) * u64::from(self.points.1)
    }
}

/// A plan for an MSM: its windows and its passes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MsmPassPlan {
    job: MsmSize,
    windows: Recoding,
    limits: DeviceLimits,
    thresholds: SplitThresholds,
    /// Vectors of each pass; the last passes may have fewer vectors, sets or points.
    vectors: u32,
    sets: u32,
    points: u32,
    /// Whether the caller chooses the passes, from received ranges of scalars.
    streamed: bool,
}

impl MsmPassPlan {
    /// Plans the largest passes that fit into `room`; `None` if not even the smallest fits.
    pub fn new(job: MsmSize, windows: Recoding, room: MsmBudget) -> Option<Self> {
        Self::with_thresholds(job, windows, room, SplitThresholds::default())
    }

    /// Like [`MsmPassPlan::new`], with other thresholds for splitting.
    pub fn with_thresholds(
        job: MsmSize,
        windows: Recoding,
        room: MsmBudget,
        cuts: SplitThresholds,
    ) -> Option<Self> {
        let sets = windows.sets();
        let MsmSize { n, vectors, .. } = job;
        let mut plan = Self {
            job,
            windows,
            limits: room.limits,
            thresholds: cuts,
            vectors,
            sets,
            points: n.max(1),
            streamed: false,
        };
        // Vectors share no buckets and sets share no digits, so splitting between them costs only
        // launches. Splitting points costs one addition per bucket.
        while !plan.fits(room) {
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

    fn fits(&self, room: MsmBudget) -> bool {
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

    /// Bytes of device memory needed in addition to scalars and bases.
    pub fn bytes(&self) -> u64 {
        let ends = self.workspace_bytes().saturating_add(self.output_bytes());
        ends.saturating_add(self.bucket_bytes()) + 2 * ALIGN
    }

    fn largest(&self) -> MsmPass {
        MsmPass {
            vectors: (0, self.vectors),
            sets: (0, self.sets),
            points: (0, self.points),
            accumulate: self.points < self.job.n,
            reduces: true,
        }
    }

    fn set_buckets(&self) -> u64 {
        u64::from(self.sets) * u64::from(self.windows.buckets())
    }

    /// The MSM that this is a plan for.
    pub fn job(&self) -> &MsmSize {
        &self.job
    }

    /// The limits of the device that this is a plan for.
    pub fn limits(&self) -> &DeviceLimits {
        &self.limits
    }

    /// The recoding of the scalars.
    pub fn windows(&self) -> &Recoding {
        &self.windows
    }

    /// The passes, in the order in which they must run.
    pub fn passes(&self) -> impl Iterator<Item = MsmPass> + use<> {
        let Self { job, windows, vectors, sets, points, .. } = self.clone();
        let steps = |all: u32, most: u32| {
            (0..all).step_by(most as usize).map(move |first| (first, most.min(all - first)))
        };
        steps(job.vectors, vectors).flat_map(move |vectors| {
            steps(windows.sets(), sets).flat_map(move |sets| {
                let pieces = steps(job.n, points);
                // An MSM without points still has a pass.
                let pieces = pieces.chain((job.n == 0).then_some((0, 0)));
                pieces.map(move |points| {
                    let (onto, last) = (points.0 > 0, points.0 + points.1 == job.n);
                    MsmPass { vectors, sets, points, accumulate: onto, reduces: last }
                })
            })
        })
    }

    /// The layout of a pass's sort. `None` if the pass is too large.
    pub(super) fn sort(&self, pass: &MsmPass) -> Option<sort::SortPlan> {
        let shape = sort::SortShape::new(self.windows, pass.points.1, pass.vectors.1)?;
        let capacity = sort::SortCapacity::of(&self.limits);
        sort::SortPlan::of(shape.with_sets(pass.sets.0, pass.sets.1)?, capacity)
    }

    fn buckets(&self, pass: &MsmPass) -> u64 {
        u64::from(pass.vectors.1 * pass.sets.1) * u64::from(self.windows.buckets())
    }

    /// Whether a pass leaves its buckets in XYZZ coordinates: no other pass adds to them.
    fn keeps_xyzz(&self, pass: &MsmPass) -> bool {
        let alone = pass.reduces && !pass.accumulate && !self.streamed;
        alone
            && match self.job.group {
                Group::G1 => self.buckets(pass) <= XYZZ_BUCKETS_MAX,
                Group::G2 => {
                    self.buckets(pass) <= XYZZ_BUCKETS_MAX_G2 && self.sums_whole_buckets(pass)
                }
            }
    }

    /// Whether a pass has few enough digits to sum whole buckets, if they may be in XYZZ.
    fn sums_whole_buckets(&self, pass: &MsmPass) -> bool {
        let digits = self.sort(pass).map_or(u64::MAX, |sort| sort.shape().digits_max());
        digits <= self.thresholds.whole_bucket_digits_max.into()
    }

    /// The bucket accumulation of a pass.
    pub(super) fn accumulate(&self, pass: &MsmPass, digits: u64) -> accumulate::AccumulateShape {
        let group = self.job.group;
        let buckets = self.buckets(pass);
        let usual = accumulate::AccumulateTuning::of(group, digits as u32);
        accumulate::AccumulateShape {
            group,
            references_max: digits as u32,
            buckets: buckets as u32,
            accumulate: pass.accumulate,
            xyzz: self.keeps_xyzz(pass),
            balance: accumulate::AccumulateTuning {
                whole_bucket_references_max: self.thresholds.whole_bucket_digits_max,
                level_additions_min: self
                    .thresholds
                    .level_additions_min
                    .unwrap_or(usual.level_additions_min),
                ..usual
            },
        }
    }

    /// The bucket reduction of a pass.
    pub(super) fn reduce(&self, pass: &MsmPass) -> reduce::ReducePlan {
        let (first, count) = pass.sets;
        let base = self.windows.set_shift(first);
        let shape = reduce::ReduceShape {
            group: self.job.group,
            vectors: pass.vectors.1,
            shifts: (first..first + count).map(|set| self.windows.set_shift(set) - base).collect(),
            buckets: self.windows.buckets(),
            weights: if self.windows.is_sliding() {
                BucketWeights::Odd
            } else {
                BucketWeights::Consecutive
            },
            xyzz: self.keeps_xyzz(pass),
        };
        reduce::ReducePlan::new(
            &shape,
            &reduce::ReduceTuning::for_limits(&self.limits, self.job.group),
        )
    }

    /// The stages of a pass and the regions of its workspace. `None` if the pass is too large.
    pub(super) fn layout(&self, pass: &MsmPass) -> Option<MsmPassLayout> {
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
        // The stages use the scratch region one after the other.
        let most = sort.bytes().max(accumulate.bytes(&self.limits)).max(reduce.workspace_bytes());
        let scratch = region(most);
        Some(MsmPassLayout { sort, accumulate, reduce, references, starts, scratch, bytes: end })
    }

    /// Bytes that hold the buckets of any pass.
    pub fn bucket_bytes(&self) -> u64 {
        // One point more, so that the first bucket can start at a reference's index, and twice the
        // bytes if buckets may be in XYZZ.
        let buckets = u64::from(self.vectors) * self.set_buckets();
        (buckets + buckets.min(XYZZ_BUCKETS_MAX) + 1) * self.job.group.affine_bytes() as u64
    }

    /// Bytes of workspace that [`super::MsmKernels::launch_pass`] needs, for any pass.
    pub fn workspace_bytes(&self) -> u64 {
        // The largest pass may not need the most: a smaller one may use another method.
        self.passes().map(|pass| self.pass_bytes(&pass)).max().unwrap_or(u64::MAX)
    }

    /// Bytes of workspace that this pass needs.
    pub fn pass_bytes(&self, pass: &MsmPass) -> u64 {
        self.layout(pass).map_or(u64::MAX, |layout| layout.bytes)
    }

    /// Bytes that all passes write for [`super::MsmKernels::combine_sums`].
    pub fn output_bytes(&self) -> u64 {
        self.outputs().map(|(_, bytes)| bytes).sum()
    }

    /// The passes that write a result, and the bytes of each result.
    pub(super) fn outputs(&self) -> impl Iterator<Item = (MsmPass, u64)> {
        let ends = self.passes().filter(|pass| pass.reduces);
        ends.map(|pass| (pass, self.reduce(&pass).output_bytes().next_multiple_of(ALIGN)))
    }
}

/// A pass's stages, and where the regions of its workspace begin.
pub(super) struct MsmPassLayout {
    pub sort: sort::SortPlan,
    pub accumulate: accumulate::AccumulateShape,
    pub reduce: reduce::ReducePlan,
    pub references: u64,
    pub starts: u64,
    pub scratch: u64,
    pub bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(job: MsmSize, tables: u32, bytes: u64) -> Option<MsmPassPlan> {
        let limits = DeviceLimits::H200;
        MsmPassPlan::new(job, job.choose_windows(tables, &limits), MsmBudget { bytes, limits })
    }

    fn job(n: u32, vectors: u32) -> MsmSize {
        MsmSize { group: Group::G1, n, vectors }
    }

    #[test]
    fn passes_cover_every_scalar_of_every_set_once() {
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
                let MsmPass { vectors, sets, points, accumulate: onto, reduces: last } = pass;
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
    fn counts_scalars_beyond_32_bits() {
        let (vectors, points) = ((300, 100), (1 << 25, 1 << 25));
        let pass = MsmPass { vectors, sets: (0, 1), points, accumulate: true, reduces: true };
        assert_eq!(pass.first_scalar(1 << 26), (300 << 26) + (1 << 25));
        assert_eq!(pass.scalars(), 100 << 25);
    }

    #[test]
    fn displays_windows_and_tables() {
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
