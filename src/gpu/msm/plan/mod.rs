//! Splits an MSM into passes. Pure: numbers in, numbers out.

mod duration;
mod kernels;
mod resident;
mod thresholds;
mod window_choice;

pub use duration::ResidentMsms;
pub use resident::{BaseMemory, ResidentPlan, TableStage};
pub use thresholds::SplitThresholds;
pub use window_choice::MsmSize;

use std::{
    fmt::{self, Display, Formatter},
    ops::Range,
};

use self::thresholds::{BUCKETS_MAX, STREAMED_SCALARS_MIN};
use super::{
    Recoding,
    accumulate::{AccumulateShape, AccumulateTuning},
    launch::RegionPlanner,
    reduce::{BucketWeights, ReducePlan, ReduceShape, ReduceTuning},
    sort::{SortCapacity, SortPlan, SortShape},
};
use crate::{
    curve::Group,
    device::{ALIGN, DeviceLimits},
};

/// A reference can name 2^31 points, and a pass may create a sum for every digit.
const DIGITS_MAX: u64 = 1 << 30;
/// At most this many G1 buckets stay in XYZZ coordinates until the bucket reduction: that saves an
/// inversion, 9 % of the bucket accumulation at 2^16 scalars (`benches/experiments/msm.md`).
const XYZZ_BUCKETS_MAX: u64 = 1 << 16;
/// At most this many G2 buckets stay in XYZZ coordinates: slices in XYZZ would need too many
/// registers, so buckets must be few enough to need no slices. References must be few, too.
const XYZZ_BUCKETS_MAX_G2: u64 = 1 << 14;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MsmBudget {
    pub bytes: u64,
    pub limits: DeviceLimits,
}

/// A part of an MSM that is computed with one sequence of launches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MsmPass {
    pub vectors: Range<u32>,
    pub sets: Range<u32>,
    /// The points, and the scalars of each vector.
    pub points: Range<u32>,
    /// Whether its sums are added to the buckets of the previous pass.
    pub accumulate: bool,
    /// Whether it completes its buckets, which are then reduced.
    pub reduces: bool,
}

impl MsmPass {
    /// A pass over some of `n` points, in their order.
    fn of(vectors: Range<u32>, sets: Range<u32>, points: Range<u32>, n: u32) -> Self {
        Self { vectors, sets, accumulate: points.start > 0, reduces: points.end == n, points }
    }

    /// The index of its first scalar over all vectors of `n` scalars each. It can exceed 2^32 on
    /// devices with more than 128 GiB for scalars.
    pub fn first_scalar(&self, n: u32) -> u64 {
        u64::from(self.vectors.start) * u64::from(n) + u64::from(self.points.start)
    }

    pub fn scalars(&self) -> u64 {
        self.vectors.len() as u64 * self.points.len() as u64
    }
}

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
    /// Plans the largest passes that fit into `budget`; `None` if not even the smallest fits.
    pub fn new(job: MsmSize, windows: Recoding, budget: MsmBudget) -> Option<Self> {
        Self::with_thresholds(job, windows, budget, SplitThresholds::default())
    }

    pub fn with_thresholds(
        job: MsmSize,
        windows: Recoding,
        budget: MsmBudget,
        thresholds: SplitThresholds,
    ) -> Option<Self> {
        let limits = budget.limits;
        let sets = windows.sets();
        let streamed = false;
        let vectors = job.vectors;
        let points = job.n.max(1);
        let mut plan = Self { job, windows, limits, thresholds, vectors, sets, points, streamed };
        while !plan.fits(budget) {
            if !plan.halve_passes() {
                return None;
            }
        }
        Some(plan)
    }

    /// The same MSM in passes of at most `pass_ns` each, by the model and without their overheads,
    /// if such passes fit into `budget`; as they were otherwise.
    pub fn with_passes_of(self, pass_ns: f64, budget: MsmBudget) -> Self {
        let mut plan = self.clone();
        while plan.longest_pass_ns() > pass_ns && plan.halve_passes() {}
        if plan.fits(budget) { plan } else { self }
    }

    /// False if passes are as small as they may be.
    fn halve_passes(&mut self) -> bool {
        let points_min = self.thresholds.points_min.max(1);
        // Vectors share no buckets and sets share no digits, so splitting between them costs only
        // launches. Splitting points costs one addition per bucket.
        if self.vectors > 1 {
            self.vectors = self.vectors.div_ceil(2);
        } else if self.sets > 1 {
            self.sets = self.sets.div_ceil(2);
        } else if self.points > points_min {
            self.points = self.points.div_ceil(2).max(points_min);
        } else {
            return false;
        }
        true
    }

    /// The largest pass's part of the MSM's modelled time, in nanoseconds.
    fn longest_pass_ns(&self) -> f64 {
        let Self { job, windows, vectors, sets, points, .. } = self;
        let part = |part: u32, all: u32| f64::from(part) / f64::from(all.max(1));
        let scalars = part(*vectors, job.vectors) * part(*points, job.n);
        scalars * part(*sets, windows.sets()) * job.model_ns(windows, &self.limits)
    }

    fn fits(&self, budget: MsmBudget) -> bool {
        let largest = self.largest();
        let digits = largest.scalars() * u64::from(self.windows.digits_max(0, self.sets));
        self.buckets(&largest) <= BUCKETS_MAX
            && digits <= DIGITS_MAX
            && self.sort(&largest).is_some()
            && self.bytes() <= budget.bytes
    }

    /// Bytes of device memory needed in addition to scalars and bases.
    pub fn bytes(&self) -> u64 {
        let workspace_and_output = self.workspace_bytes().saturating_add(self.output_bytes());
        workspace_and_output.saturating_add(self.bucket_bytes()) + 2 * ALIGN
    }

    fn largest(&self) -> MsmPass {
        MsmPass {
            vectors: 0..self.vectors,
            sets: 0..self.sets,
            points: 0..self.points,
            accumulate: self.points < self.job.n,
            reduces: true,
        }
    }

    pub fn job(&self) -> &MsmSize {
        &self.job
    }

    pub fn limits(&self) -> &DeviceLimits {
        &self.limits
    }

    pub fn windows(&self) -> &Recoding {
        &self.windows
    }

    /// The passes, in the order in which they must run.
    pub fn passes(&self) -> impl Iterator<Item = MsmPass> + use<> {
        let Self { job, windows, vectors, sets, points, .. } = self.clone();
        let split = |all: u32, step: u32| {
            (0..all).step_by(step as usize).map(move |start| start..start + step.min(all - start))
        };
        split(job.vectors, vectors).flat_map(move |vectors| {
            split(windows.sets(), sets).flat_map(move |sets| {
                // An MSM without points still has a pass.
                let ranges = split(job.n, points).chain((job.n == 0).then_some(0..0));
                let vectors = vectors.clone();
                ranges.map(move |points| MsmPass::of(vectors.clone(), sets.clone(), points, job.n))
            })
        })
    }

    /// Lets the caller choose the passes with [`MsmPassPlan::pass_over`], if there are enough
    /// scalars and the plan is one pass over one vector. Returns whether it does.
    pub fn enable_streaming(&mut self) -> bool {
        let is_one_pass = self.points == self.job.n && self.sets == self.windows.sets();
        self.streamed = self.job.n >= self.thresholds.streamed_scalars_min.max(1)
            && self.job.vectors == 1
            && is_one_pass
            // Passes with few digits use another memory layout than the plan's.
            && !self.sums_whole_buckets(&self.largest());
        self.streamed
    }

    pub fn is_streaming(&self) -> bool {
        self.streamed
    }

    /// Scales the cost of one more pass: 1 by default, less in proportion if
    /// [`SplitThresholds`] lower the smallest MSM that is split.
    pub fn pass_cost_scale(&self) -> f64 {
        f64::from(self.thresholds.streamed_scalars_min.max(1)) / f64::from(STREAMED_SCALARS_MIN)
    }

    /// The pass over these points, for a plan with [`MsmPassPlan::is_streaming`]. Passes must
    /// follow each other from the first point to the last.
    pub fn pass_over(&self, points: Range<u32>) -> MsmPass {
        MsmPass::of(0..1, 0..self.sets, points, self.job.n)
    }

    fn sort(&self, pass: &MsmPass) -> Option<SortPlan> {
        let MsmPass { vectors, sets, points, .. } = pass;
        let shape = SortShape::new(self.windows, points.len() as u32, vectors.len() as u32)?;
        let shape = shape.with_sets(sets.start, sets.len() as u32)?;
        SortPlan::of(shape, SortCapacity::of(&self.limits))
    }

    fn buckets(&self, pass: &MsmPass) -> u64 {
        pass.vectors.len() as u64 * pass.sets.len() as u64 * u64::from(self.windows.buckets())
    }

    /// Whether a pass leaves its buckets in XYZZ coordinates: no other pass adds to them.
    fn keeps_xyzz(&self, pass: &MsmPass) -> bool {
        let is_alone = pass.reduces && !pass.accumulate && !self.streamed;
        let buckets = self.buckets(pass);
        is_alone
            && match self.job.group {
                Group::G1 => buckets <= XYZZ_BUCKETS_MAX,
                Group::G2 => buckets <= XYZZ_BUCKETS_MAX_G2 && self.sums_whole_buckets(pass),
            }
    }

    /// Whether a pass has few enough digits to sum whole buckets, if they may be in XYZZ.
    fn sums_whole_buckets(&self, pass: &MsmPass) -> bool {
        let digits = self.sort(pass).map_or(u64::MAX, |sort| sort.shape.digits_max());
        digits <= self.thresholds.whole_bucket_digits_max.into()
    }

    fn accumulate(&self, pass: &MsmPass, digits: u64) -> AccumulateShape {
        let group = self.job.group;
        let thresholds = &self.thresholds;
        let mut balance = AccumulateTuning::of(group, digits as u32);
        balance.whole_bucket_references_max = thresholds.whole_bucket_digits_max;
        if let Some(additions_min) = thresholds.level_additions_min {
            balance.level_additions_min = additions_min;
        }
        AccumulateShape {
            group,
            references_max: digits as u32,
            buckets: self.buckets(pass) as u32,
            accumulate: pass.accumulate,
            xyzz: self.keeps_xyzz(pass),
            balance,
        }
    }

    pub(super) fn reduce(&self, pass: &MsmPass) -> ReducePlan {
        let group = self.job.group;
        let windows = &self.windows;
        let first_shift = windows.set_shift(pass.sets.start);
        let shape = ReduceShape {
            group,
            vectors: pass.vectors.len() as u32,
            shifts: pass.sets.clone().map(|set| windows.set_shift(set) - first_shift).collect(),
            buckets: windows.buckets(),
            weights: match windows {
                Recoding::Sliding(_) => BucketWeights::Odd,
                Recoding::Fixed(_) | Recoding::Radix(_) => BucketWeights::Consecutive,
            },
            xyzz: self.keeps_xyzz(pass),
        };
        ReducePlan::new(&shape, &ReduceTuning::for_limits(&self.limits, group))
    }

    /// The stages of a pass and the regions of its workspace. `None` if the pass is too large.
    pub fn layout(&self, pass: &MsmPass) -> Option<MsmPassLayout> {
        let sort = self.sort(pass)?;
        let digits = sort.shape.digits_max();
        let accumulate = self.accumulate(pass, digits);
        let reduce = self.reduce(pass);
        // The stages use the scratch region one after the other.
        let scratch =
            sort.bytes().max(accumulate.bytes(&self.limits)).max(reduce.workspace_bytes());
        let mut regions = RegionPlanner::default();
        Some(MsmPassLayout {
            references: regions.add(4 * digits),
            starts: regions.add(4 * (u64::from(accumulate.buckets) + 1)),
            scratch: regions.add(scratch),
            sort,
            accumulate,
            reduce,
        })
    }

    pub fn bucket_bytes(&self) -> u64 {
        // One point more, so that the first bucket can start at a reference's index, and twice the
        // bytes if buckets may be in XYZZ.
        let buckets = self.buckets(&self.largest());
        (buckets + buckets.min(XYZZ_BUCKETS_MAX) + 1) * self.job.group.affine_bytes() as u64
    }

    /// Bytes of workspace that [`super::MsmKernels::launch_pass`] needs, for any pass.
    pub fn workspace_bytes(&self) -> u64 {
        // The largest pass may not need the most: a smaller one may use another method.
        self.passes().map(|pass| self.pass_bytes(&pass)).max().unwrap_or(u64::MAX)
    }

    pub fn pass_bytes(&self, pass: &MsmPass) -> u64 {
        self.layout(pass).map_or(u64::MAX, |layout| layout.scratch.end)
    }

    /// Bytes that all passes write for [`super::MsmKernels::combine_sums`].
    pub fn output_bytes(&self) -> u64 {
        self.outputs().last().map_or(0, |output| output.bytes.end)
    }

    /// The outputs of all passes that reduce buckets, in order.
    pub(super) fn outputs(&self) -> impl Iterator<Item = PassOutput> {
        let mut regions = RegionPlanner::default();
        self.passes().filter(|pass| pass.reduces).map(move |pass| {
            let reduce = self.reduce(&pass);
            let bytes = regions.add(reduce.output_bytes());
            PassOutput { pass, reduce, bytes }
        })
    }
}

/// Prints the windows and tables, and bucket sets and passes if there are several.
impl Display for MsmPassPlan {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let windows = &self.windows;
        match windows {
            Recoding::Fixed(fixed) => write!(f, "{} windows of {} bits", fixed.count, fixed.bits)?,
            Recoding::Radix(radix) => {
                let (factor, doublings) = (radix.factor, radix.doublings);
                write!(f, "{} windows of radix {factor} x 2^{doublings}", radix.count)?
            }
            Recoding::Sliding(sliding) => write!(f, "sliding windows of {} bits", sliding.bits)?,
        }
        match (windows.tables(), windows.sets()) {
            (1, _) => write!(f, ", no tables")?,
            (tables, 1) => write!(f, ", {tables} tables")?,
            (tables, sets) => write!(f, ", {tables} tables, {sets} bucket sets")?,
        }
        match self.passes().count() {
            _ if self.streamed => write!(f, ", passes as scalars arrive"),
            1 => Ok(()),
            passes => write!(f, ", {passes} passes"),
        }
    }
}

pub(super) struct PassOutput {
    pub pass: MsmPass,
    pub reduce: ReducePlan,
    pub bytes: Range<u64>,
}

/// A pass's stages, and the regions of its workspace.
pub struct MsmPassLayout {
    pub sort: SortPlan,
    pub accumulate: AccumulateShape,
    pub reduce: ReducePlan,
    pub references: Range<u64>,
    pub starts: Range<u64>,
    pub scratch: Range<u64>,
}
