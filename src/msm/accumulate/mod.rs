//! Bucket accumulation: from sorted references to one sum per bucket.
//!
//! Teams of lanes sum few references ([`whole`]). Of many, a tree sums most: each level adds
//! neighbours within all buckets as affine points, with batch inversion. The rest, or everything if
//! levels would be too small, is split into equal shares that threads sum in XYZZ coordinates:
//! load-balanced accumulation. The distribution of references over buckets does not change the
//! cost. The device finds the number of references and the levels that pay.
//!
//! Kernels: `kernels/msm/{whole,levels,tree,balanced}.cu`.

mod blocks;
mod kernels;
mod layout;
mod named;
mod whole_buckets;

pub use layout::{AccumulateShape, AccumulateTuning, WHOLE_BUCKET_REFERENCES_MAX};

use bytemuck::Pod;

use self::{
    blocks::TreeBlocks,
    kernels::{
        AccumulateKernels, AccumulateModules, COLLECT_THREADS, COPY_THREADS, GroupKernels,
        LIST_THREADS, TEAM_BLOCK_THREADS, TEAM_LANES,
    },
    layout::{AccumulateLayout, TEAM_ELEMENTS},
    whole_buckets::WholeBucketPlan,
};
use super::align_to_points;
use crate::{
    curve::Group,
    device::{DeviceContext, DeviceFault, DeviceLimits, DeviceSlice, GpuUnavailable, Stream},
};

/// Whether the tree's batches of affine additions fit into a device's shared memory. Otherwise
/// load-balanced accumulation sums everything.
pub fn has_tree(group: Group, limits: &DeviceLimits) -> bool {
    TreeBlocks::of(group, limits).is_some()
}

/// Buckets per thread from which on another block per multiprocessor pays: each thread may have to
/// invert, which costs as much as four buckets, and blocks share the multiplier.
const COLLECT_BUCKETS_PER_THREAD: u32 = 4;
/// The value of `held` if buckets hold no sums yet: see `kernels/msm/levels.cuh`.
const NOTHING_HELD: u32 = u32::MAX;

/// The kernels of the bucket accumulation on one device.
pub struct Accumulator {
    limits: DeviceLimits,
    /// Kernels with programmatic dependent launch (PDL), used without a tree, when launches are
    /// short. With a tree, whose blocks each need a whole multiprocessor, PDL cost up to 4 % on an
    /// H200, and at times as much as a level.
    pdl_kernels: AccumulateKernels,
    plain_kernels: AccumulateKernels,
    whole: whole_buckets::WholeBucketKernels,
}

/// References sorted by bucket.
#[derive(Clone, Copy)]
pub struct SortedReferences<'a> {
    /// Shape: [`AccumulateShape::references_max`] words. References by bucket, in any order within
    /// a bucket.
    pub references: DeviceSlice<'a, u32>,
    /// Shape: [`AccumulateShape::buckets`] + 1 words, ascending from 0: the start of each bucket's
    /// references, and the end of the last bucket's.
    pub starts: DeviceSlice<'a, u32>,
}

impl Accumulator {
    /// Loads the kernels.
    ///
    /// Errors: `NoKernels`, `NoImageForDevice`, `Device`.
    pub fn load(context: &DeviceContext) -> Result<Self, GpuUnavailable> {
        let failed = |fault| GpuUnavailable::Device { index: context.identity().index, fault };
        let modules = AccumulateModules::load(context)?;
        let limits = context.identity().limits;
        let kernels = |early| AccumulateKernels::load(&modules, &limits, early).map_err(failed);
        let whole = whole_buckets::WholeBucketKernels::load(context)?;
        Ok(Self { limits, pdl_kernels: kernels(true)?, plain_kernels: kernels(false)?, whole })
    }

    fn kernels(&self, layout: &AccumulateLayout) -> &AccumulateKernels {
        if layout.level_count == 0 { &self.pdl_kernels } else { &self.plain_kernels }
    }

    /// Bytes of workspace that [`Accumulator::run`] needs.
    pub fn bytes(&self, shape: &AccumulateShape) -> u64 {
        shape.bytes(&self.limits)
    }

    /// Sets `buckets[b]` to the sum of the bucket's points, or adds that sum to it.
    ///
    /// Shape: `buckets` has [`AccumulateShape::buckets`] points; if sums are added onto it, it
    /// starts at the index of a point ([`align_to_points`]). `workspace` has
    /// [`Accumulator::bytes`], with any contents, in the arena of the points that references name.
    /// Points are affine in Montgomery form, x canonical, y below 2p, infinity as zeros (y = p or
    /// 2p also counts as zero); with [`AccumulateShape::xyzz`] sums are x, y, zz and zzz below 2p,
    /// and infinity has zz = 0.
    ///
    /// Errors: `KernelMismatch` if a span is too short or misplaced; driver errors.
    pub fn run(
        &self,
        stream: &Stream,
        shape: &AccumulateShape,
        sorted: SortedReferences<'_>,
        buckets: DeviceSlice<'_, u8>,
        workspace: DeviceSlice<'_, u8>,
    ) -> Result<(), DeviceFault> {
        self.launch_listing(stream, shape, sorted, buckets, workspace)?;
        self.launch_additions(stream, shape, sorted, buckets, workspace)
    }

    /// The second part of [`Accumulator::run`]: performs all additions.
    ///
    /// Errors: like [`Accumulator::run`].
    pub fn launch_additions(
        &self,
        stream: &Stream,
        shape: &AccumulateShape,
        sorted: SortedReferences<'_>,
        buckets: DeviceSlice<'_, u8>,
        workspace: DeviceSlice<'_, u8>,
    ) -> Result<(), DeviceFault> {
        let (held, count) = (held_index(shape, buckets)?, shape.buckets);
        if let Some(cutting) = WholeBucketPlan::of(shape, &self.limits) {
            return self.whole.run(stream, (shape, &cutting), sorted, buckets, workspace);
        }
        let layout = self.layout(shape);
        let sums = self.kernels(&layout).sums(shape.group);
        let room = AccumulateRegions::new(shape, &layout, workspace)?;
        let AccumulateRegions { header, rows, .. } = room;
        let SortedReferences { references, starts } = sorted;
        let width = layout.width;
        let (tail_row, number) = (layout.level_count, room.first_sum);
        sums.launch_tree_and_shares(stream, shape, &layout, &room)?;
        if let Some(team) = layout.team {
            let given = (
                room.sums, header, rows, references, starts, count, held, width, tail_row, number,
                team,
            );
            let lanes = u64::from(count) * u64::from(team * TEAM_LANES);
            sums.teams.launch(stream, lanes.div_ceil(TEAM_BLOCK_THREADS.into()) as u32, given)?;
        }
        let multiprocessors = self.limits.multiprocessors;
        let wave = multiprocessors * COLLECT_THREADS;
        let full = (count / (wave * COLLECT_BUCKETS_PER_THREAD)).clamp(1, sums.collect_blocks);
        let grid = count.div_ceil(COLLECT_THREADS).min(multiprocessors * full);
        let given = (
            buckets, room.sums, header, rows, references, starts, count, held, width, tail_row,
            number,
        );
        if shape.xyzz {
            let most = multiprocessors * sums.spread_blocks;
            let groups = (count * TEAM_LANES).div_ceil(COPY_THREADS).min(most);
            return sums.spread.launch(stream, groups, given);
        }
        let copies = count.div_ceil(COPY_THREADS).min(multiprocessors * sums.copy_blocks);
        sums.copy.launch(stream, copies, given)?;
        sums.collect.launch(stream, grid, given)
    }

    /// The first part of [`Accumulator::run`]: lists the additions by prefix sums over buckets,
    /// unless teams sum whole buckets. It reads no points.
    ///
    /// Errors: like [`Accumulator::run`].
    pub fn launch_listing(
        &self,
        stream: &Stream,
        shape: &AccumulateShape,
        sorted: SortedReferences<'_>,
        buckets: DeviceSlice<'_, u8>,
        workspace: DeviceSlice<'_, u8>,
    ) -> Result<(), DeviceFault> {
        let SortedReferences { references, starts } = sorted;
        if references.len() < shape.references_max as usize
            || starts.len() <= shape.buckets as usize
        {
            return Err(kernel_fault("the spans of references or starts are too short"));
        }
        let (held, count) = (held_index(shape, buckets)?, shape.buckets);
        if WholeBucketPlan::of(shape, &self.limits).is_some() {
            return Ok(());
        }
        let layout = self.layout(shape);
        let kernels = self.kernels(&layout);
        let AccumulateRegions { header, totals, rows, list, first_sum: number, .. } =
            AccumulateRegions::new(shape, &layout, workspace)?;
        let AccumulateLayout { level_count: levels, tiles, width, .. } = layout;
        kernels.count.launch(stream, tiles, (totals, starts, count, held, levels))?;
        let least = shape.balance.level_additions_min.max(1);
        let team_most = layout.team.map_or(0, |team| team * TEAM_ELEMENTS);
        kernels.scan.launch(stream, 1, (header, totals, tiles, levels, least, team_most))?;
        let given = (rows, header, totals, starts, count, held, width, levels);
        kernels.place.launch(stream, tiles, given)?;
        let blocks = shape.elements().div_ceil(LIST_THREADS.into());
        let grid =
            blocks.clamp(1, u64::from(self.limits.multiprocessors * kernels.list_blocks)) as u32;
        let given = (list, header, rows, references, starts, count, held, width, levels, number);
        kernels.list.launch(stream, grid, given)
    }

    fn layout(&self, shape: &AccumulateShape) -> AccumulateLayout {
        AccumulateLayout::of(shape, &self.limits)
    }
}

impl GroupKernels {
    /// Performs all additions that `list` names.
    fn launch_tree_and_shares(
        &self,
        stream: &Stream,
        shape: &AccumulateShape,
        layout: &AccumulateLayout,
        room: &AccumulateRegions<'_>,
    ) -> Result<(), DeviceFault> {
        let &AccumulateRegions {
            header,
            list,
            scratch,
            heads,
            tails,
            states,
            sums,
            first_sum: number,
            ..
        } = room;
        // Without a tree the layout has no levels.
        if let Some(tree) = &self.tree {
            for level in 1..=layout.level_count {
                let kernel = if level == 1 { &tree.first } else { &tree.level };
                let given = (sums, scratch, header, list, number, level, layout.batch_additions);
                kernel.launch(stream, tree.batch.blocks, given)?;
            }
        }
        let (most, least) = (layout.units[0], shape.balance.share_references_min.max(1));
        let given = (sums, heads, tails, states, header, list, number, most, least);
        self.share.launch(stream, most.div_ceil(self.share_threads), given)?;
        let given = (sums, heads, tails, states, header, list, most, least);
        self.join.launch(stream, (most * TEAM_LANES).div_ceil(TEAM_BLOCK_THREADS), given)?;
        let mut from = 0;
        for (round, units) in layout.units.windows(2).enumerate() {
            let to = from + units[0];
            let given = (sums, heads, tails, states, header, from, to, round as u32, most, least);
            self.merge.launch(stream, units[1], given)?;
            from = to;
        }
        Ok(())
    }
}

/// The regions of the workspace.
#[derive(Clone, Copy)]
struct AccumulateRegions<'a> {
    header: DeviceSlice<'a, u32>,
    totals: DeviceSlice<'a, u32>,
    rows: DeviceSlice<'a, u32>,
    list: DeviceSlice<'a, u64>,
    scratch: DeviceSlice<'a, u8>,
    heads: DeviceSlice<'a, u8>,
    tails: DeviceSlice<'a, u8>,
    states: DeviceSlice<'a, u64>,
    sums: DeviceSlice<'a, u8>,
    /// The index of the first sum, as references name it.
    first_sum: u32,
}

impl<'a> AccumulateRegions<'a> {
    fn new(
        shape: &AccumulateShape,
        layout: &AccumulateLayout,
        workspace: DeviceSlice<'a, u8>,
    ) -> Result<Self, DeviceFault> {
        let short = || kernel_fault("the workspace is too short or too far for references");
        let (sums, number) = region(workspace, layout.sums, layout.bytes)
            .and_then(|sums| align_to_points(sums, shape.group))
            .ok_or_else(short)?;
        Ok(Self {
            header: region(workspace, layout.levels, layout.totals).ok_or_else(short)?,
            totals: region(workspace, layout.totals, layout.rows).ok_or_else(short)?,
            rows: region(workspace, layout.rows, layout.list).ok_or_else(short)?,
            list: region(workspace, layout.list, layout.scratch).ok_or_else(short)?,
            scratch: region(workspace, layout.scratch, layout.heads).ok_or_else(short)?,
            heads: region(workspace, layout.heads, layout.tails).ok_or_else(short)?,
            tails: region(workspace, layout.tails, layout.unit_states).ok_or_else(short)?,
            states: region(workspace, layout.unit_states, layout.sums).ok_or_else(short)?,
            sums,
            first_sum: number,
        })
    }
}

/// Casts bytes `begin..end` to elements.
fn region<T: Pod>(whole: DeviceSlice<'_, u8>, begin: u64, end: u64) -> Option<DeviceSlice<'_, T>> {
    whole.slice(begin as usize, (end - begin) as usize)?.cast()
}

/// The index of the first bucket's sum, or `NOTHING_HELD`.
fn held_index(shape: &AccumulateShape, buckets: DeviceSlice<'_, u8>) -> Result<u32, DeviceFault> {
    if buckets.len() / shape.sum_bytes() < shape.buckets as usize {
        return Err(kernel_fault("the buckets' span is too short"));
    }
    if !shape.accumulate {
        return Ok(NOTHING_HELD);
    }
    if shape.xyzz {
        return Err(kernel_fault("sums cannot be added onto XYZZ buckets"));
    }
    match align_to_points(buckets, shape.group) {
        Some((whole, number)) if whole.len() == buckets.len() => Ok(number),
        _ => Err(kernel_fault("references cannot name the buckets at this address")),
    }
}

fn kernel_fault(problem: &str) -> DeviceFault {
    DeviceFault::KernelMismatch { kernel: "accumulation".into(), problem: problem.into() }
}
