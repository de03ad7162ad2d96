//! What is to be reduced, on what, and where the device stops.

use super::step::{Ladder, SUM_GROUPS, lg_ceil};
use crate::{
    curve::Group,
    device::{Block, Context, DeviceLimits},
};

/// What is to be reduced: for each vector, one set of buckets a shift. At least one vector and one
/// shift; fewer than 2^31 buckets in all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// The group of the points.
    pub group: Group,
    /// How many vectors of scalars.
    pub vectors: u32,
    /// Each set's sum counts 2^shift times; shifts grow.
    pub shifts: Vec<u32>,
    /// Buckets of a set, 1 at least; sets follow each other.
    pub buckets: u32,
    /// How often a bucket counts.
    pub weights: Weights,
    /// Whether buckets come in XYZZ coordinates, and not affine.
    pub xyzz: bool,
}

/// How often bucket b of a set counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weights {
    /// b + 1 times.
    All,
    /// 2b + 1 times.
    Odd,
}

impl Shape {
    /// Sets of a vector.
    pub fn sets(&self) -> u32 {
        self.shifts.len() as u32
    }

    /// Bytes of the buckets of all vectors.
    pub fn bucket_bytes(&self) -> u64 {
        let point = self.group.affine_bytes() as u64 * if self.xyzz { 2 } else { 1 };
        u64::from(self.arrays()) * u64::from(self.buckets) * point
    }

    /// log2 of the buckets of a set, rounded up.
    pub fn lg_buckets(&self) -> u32 {
        lg_ceil(self.buckets)
    }

    /// Term `term` of a set counts 2 to this power: see `kernels/msm/reduce/terms.cuh`.
    pub(super) fn term_exponent(&self, term: u32) -> u32 {
        match self.weights {
            Weights::All => term.max(1) - 1,
            Weights::Odd => term,
        }
    }

    pub(super) fn arrays(&self) -> u32 {
        self.vectors * self.sets()
    }

    pub(super) fn terms(&self) -> u32 {
        self.lg_buckets() + 1
    }

    /// How set follows set, where the kernels can count it: widths that differ by one at most.
    pub(super) fn ladder(&self) -> Option<Ladder> {
        let widths: Vec<u32> = self.shifts.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let width = widths.iter().copied().max().unwrap_or(0);
        let fits = widths.iter().all(|&own| own == width || own + 1 == width);
        let narrow = widths.iter().enumerate().filter(|(_, own)| **own < width);
        (fits && self.shifts.first() == Some(&0) && self.sets() <= u64::BITS).then(|| Ladder {
            period: self.sets(),
            width,
            narrow: narrow.fold(0, |mask, (set, _)| mask | 1 << set),
        })
    }
}

/// Where the device stops; the host does the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// lg_buckets + 1 terms a set: the least latency for one vector and one set.
    Terms,
    /// A point a set. The doublings between sets are in a row, and a host is faster at these.
    Sets,
    /// A point a vector.
    Vectors,
}

/// What the plan depends on beside the shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuning {
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Threads that fill the device with slices.
    pub slice_threads: u64,
    /// Fewer points are summed by split lanes from the start.
    pub slice_points_min: u64,
    /// Terms of more than 2^lg_part points are cut into parts of so many.
    pub lg_part: u32,
    /// Groups of four lanes that a multiprocessor gets in teams: at most as many as fit at once.
    /// Three warps of a scheduler add 2.2 times as many points as one that is alone, by counts.
    pub groups: u32,
    /// Where the device stops; by a model of the time where nothing is said.
    pub ending: Option<Ending>,
}

impl Tuning {
    /// For points of `group` on this device.
    pub fn of(context: &Context, group: Group) -> Self {
        Self::on(&context.identity().limits, group)
    }

    /// The same for a device of these limits.
    ///
    /// On an H200, in G1: 2^15 buckets take 0.119 ms with slices and 0.162 without, 2^13 take 0.092
    /// and 0.081; parts of 2^6 and 2^8 points are within 5 % of parts of 2^7.
    pub fn on(limits: &DeviceLimits, group: Group) -> Self {
        let blocks = match group {
            Group::G1 => 3,
            Group::G2 => 2,
        };
        let SliceBlock { block, by_registers } = SliceBlock::of(group);
        let slice_threads = u64::from(limits.wave(block, by_registers));
        Self {
            multiprocessors: limits.multiprocessors,
            slice_threads,
            slice_points_min: slice_threads,
            lg_part: 7,
            groups: blocks * SUM_GROUPS,
            ending: None,
        }
    }

    /// Groups of lanes for each of `sums` of `count` points: as many as the device is to have if
    /// there is work for them, and no group that has less than two points.
    pub(super) fn team(&self, sums: u64, count: u32) -> u32 {
        let wanted = (u64::from(self.multiprocessors * self.groups) / sums.max(1))
            .clamp(1, SUM_GROUPS.into());
        let most = count.next_power_of_two() / 2;
        (1 << wanted.ilog2()).min(most.max(1))
    }
}

/// The blocks that sum slices: `kernels/msm/reduce.cu`.
pub(super) struct SliceBlock {
    pub block: Block,
    /// How many of them a multiprocessor has registers for.
    pub by_registers: u32,
}

impl SliceBlock {
    pub fn of(group: Group) -> Self {
        // A point travels; in G2 the sum is in shared memory, too.
        let (threads, elements, by_registers) = match group {
            Group::G1 => (128, 2, 2),
            Group::G2 => (64, 6, 4),
        };
        let shared_bytes = elements * group.coordinate_bytes() as u32 * threads;
        Self { block: Block { threads, shared_bytes }, by_registers }
    }
}
