//! The input of a bucket reduction, and its tuning for a device.

use crate::{
    curve::Group,
    device::DeviceLimits,
    msm::launch::{PerGroup, SerialSumBlocks, lg_ceil},
};

/// Groups of four lanes per block, as in `kernels/msm/reduce/team_sum.cuh`.
pub(super) const SUM_GROUPS: u32 = 32;

/// The input of a bucket reduction: for each vector, one set of buckets per shift. At least one
/// vector and one shift; fewer than 2^31 buckets in all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReduceShape {
    pub group: Group,
    pub vectors: u32,
    /// The sum of each set is multiplied by 2^shift. Ascending.
    pub shifts: Vec<u32>,
    /// Buckets per set, at least 1; sets are contiguous.
    pub buckets: u32,
    pub weights: BucketWeights,
    /// Whether buckets are in XYZZ coordinates instead of affine.
    pub xyzz: bool,
}

/// The weight of bucket b in its set's sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BucketWeights {
    /// b + 1.
    Consecutive,
    /// 2b + 1.
    Odd,
}

impl ReduceShape {
    pub fn sets(&self) -> u32 {
        self.shifts.len() as u32
    }

    pub fn bucket_bytes(&self) -> u64 {
        let bucket = self.group.affine_bytes() as u64 * if self.xyzz { 2 } else { 1 };
        u64::from(self.set_count()) * u64::from(self.buckets) * bucket
    }

    /// log2 of the buckets per set, rounded up.
    pub fn lg_buckets(&self) -> u32 {
        lg_ceil(self.buckets)
    }

    /// Term `term` of a set is multiplied by 2 to this power: see
    /// `kernels/msm/reduce/bit_terms.cuh`.
    pub(super) fn term_exponent(&self, term: u32) -> u32 {
        match self.weights {
            BucketWeights::Consecutive => term.max(1) - 1,
            BucketWeights::Odd => term,
        }
    }

    pub(super) fn set_count(&self) -> u32 {
        self.vectors * self.sets()
    }

    pub(super) fn terms(&self) -> u32 {
        self.lg_buckets() + 1
    }
}

/// The step at which the host takes over from the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostTakeover {
    /// lg_buckets + 1 terms per set: the lowest latency for one vector and one set.
    Terms,
    /// A point per set. The doublings between sets are a dependent chain, which a host does faster.
    Sets,
    /// A point per vector.
    Vectors,
}

/// What a plan depends on in addition to the shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReduceTuning {
    pub multiprocessors: u32,
    /// Threads that fill the device with slices.
    pub slice_threads: u64,
    /// The fewest points that threads sum in slices; teams sum fewer.
    pub slice_points_min: u64,
    /// Terms of more than 2^lg_part points are split into parts of that many.
    pub lg_part: u32,
    /// Groups of four lanes per multiprocessor in teams; at most as many as are resident: three
    /// warps per scheduler add twice as many points as one (`benches/experiments/msm.md`).
    pub teams_per_multiprocessor: u32,
}

impl ReduceTuning {
    /// Slices save 27 % of the reduction of 2^15 buckets (`benches/experiments/msm.md`).
    pub fn for_limits(limits: &DeviceLimits, group: Group) -> Self {
        let blocks_by_registers = PerGroup { g1: 3, g2: 2 }.of(group);
        let slice_threads = SerialSumBlocks::of(group).resident_threads(limits).into();
        Self {
            multiprocessors: limits.multiprocessors,
            slice_threads,
            slice_points_min: slice_threads,
            lg_part: 7,
            teams_per_multiprocessor: blocks_by_registers * SUM_GROUPS,
        }
    }

    /// Groups of lanes for each of `sums` sums of `count` points, a power of two: enough to fill
    /// the device, but at least two points per group.
    pub(super) fn team_size(&self, sums: u64, count: u32) -> u32 {
        let groups = u64::from(self.multiprocessors * self.teams_per_multiprocessor);
        let groups_per_sum = (groups / sums.max(1)).clamp(1, SUM_GROUPS.into());
        let pairs = count.next_power_of_two() / 2;
        (1 << groups_per_sum.ilog2()).min(pairs.max(1))
    }
}
