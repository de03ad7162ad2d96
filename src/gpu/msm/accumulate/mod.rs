//! Bucket accumulation: from sorted references to one sum per bucket.
//!
//! Teams of lanes sum few references (`whole_buckets`). Of many, an addition tree sums most: each
//! level adds neighbours within all buckets as affine points, with batch inversion. The rest, or
//! everything if levels would be too small, is split into equal shares that threads sum in XYZZ
//! coordinates: load-balanced accumulation. The distribution of references over buckets does not
//! change the cost. The device finds the number of references and the levels that pay.
//!
//! Kernels: `kernels/msm/{bucket_teams,levels,tree,load_balanced}.cu`.

mod blocks;
mod kernels;
mod layout;
mod method;
mod shape;
mod whole_buckets;

pub use shape::{AccumulateShape, AccumulateTuning, WHOLE_BUCKET_REFERENCES_MAX};

use self::{
    blocks::TreeBlocks,
    kernels::{
        AccumulateKernels, COPY_THREADS, GroupKernels, KERNEL, LIST_THREADS, TEAM_BLOCK_THREADS,
        TEAM_LANES, TO_AFFINE_THREADS,
    },
    layout::AccumulateLayout,
    method::AccumulateMethod,
    whole_buckets::{WholeBucketKernels, short},
};
use super::{
    launch::{kernel_fault, region},
    references::{AlignedPoints, SortedReferences},
};
use crate::{
    curve::Group,
    device::{
        DeviceContext, DeviceFault, DeviceLimits, DeviceSlice, GpuUnavailable, KernelModule, Stream,
    },
};

/// Whether the tree's batches of affine additions fit into a device's shared memory. Otherwise
/// load-balanced accumulation sums everything.
pub fn has_tree(group: Group, limits: &DeviceLimits) -> bool {
    TreeBlocks::of(group, limits).is_some()
}

/// Buckets per thread from which on another block per multiprocessor pays: each thread may have to
/// invert, which costs as much as four buckets, and blocks share the multiplier. Not tuned.
const TO_AFFINE_BUCKETS_PER_THREAD: u32 = 4;
/// The most elements of the largest bucket per member of its team: a few large buckets finish with
/// the others, but one that holds everything does not. Figures were not kept.
const TEAM_ELEMENTS: u32 = 20;
/// The value of `held` if buckets hold no sums yet: see `kernels/msm/levels.cuh`.
const NO_HELD_SUMS: u32 = u32::MAX;

pub struct Accumulator {
    limits: DeviceLimits,
    /// Kernels with programmatic dependent launch (PDL), used without a tree, when launches are
    /// short. With a tree, whose blocks each need a whole multiprocessor, PDL costs 4 % and more
    /// (`benches/experiments/msm.md`).
    pdl_kernels: AccumulateKernels,
    plain_kernels: AccumulateKernels,
    whole_bucket_kernels: WholeBucketKernels,
}

impl Accumulator {
    pub fn load(context: &DeviceContext) -> Result<Self, GpuUnavailable> {
        let failed = |fault| GpuUnavailable::Device { index: context.identity().index, fault };
        let load = |name| KernelModule::load(context, name);
        let modules = [load("msm/levels")?, load("msm/tree")?, load("msm/load_balanced")?];
        let limits = context.identity().limits;
        let kernels = |is_pdl| AccumulateKernels::load(&modules, &limits, is_pdl).map_err(failed);
        Ok(Self {
            limits,
            pdl_kernels: kernels(true)?,
            plain_kernels: kernels(false)?,
            whole_bucket_kernels: WholeBucketKernels::load(context)?,
        })
    }

    fn kernels(&self, layout: &AccumulateLayout) -> &AccumulateKernels {
        if layout.level_count == 0 { &self.pdl_kernels } else { &self.plain_kernels }
    }

    /// Sets `buckets[b]` to the sum of the bucket's points, or adds that sum to it.
    ///
    /// Shape: `sorted` has [`AccumulateShape::references_max`] references; `buckets` has
    /// [`AccumulateShape::buckets`] points; if sums are added onto it, it starts at the index of a
    /// point ([`AlignedPoints`]). `workspace` has [`AccumulateShape::bytes`], with any contents,
    /// in the arena of the points that references name. Points are affine in Montgomery form, x
    /// canonical, y below 2p, infinity as zeros (y = p or 2p also counts as zero); with
    /// [`AccumulateShape::xyzz`] sums are x, y, zz and zzz below 2p, and infinity has zz = 0.
    pub fn run(
        &self,
        stream: &Stream,
        shape: &AccumulateShape,
        sorted: SortedReferences<'_>,
        buckets: DeviceSlice<'_, u8>,
        workspace: DeviceSlice<'_, u8>,
    ) -> Result<(), DeviceFault> {
        self.launch_listing(stream, shape, sorted, buckets, workspace)?;
        let held = held_index(shape, buckets)?;
        let count = shape.buckets;
        let layout = match AccumulateMethod::of(shape, &self.limits) {
            AccumulateMethod::WholeBuckets(plan) => {
                let kernels = &self.whole_bucket_kernels;
                return kernels.run(stream, shape, &plan, sorted, buckets, workspace);
            }
            AccumulateMethod::TreeAndShares(layout) => layout,
        };
        let kernels = self.kernels(&layout).sums.get(shape.group);
        let regions = AccumulateRegions::split(shape, &layout, workspace).ok_or_else(short)?;
        let AccumulateRegions { tree_levels, rows, sums, first_sum, .. } = regions;
        let SortedReferences { references, starts } = sorted;
        let (width, tail_row) = (layout.width, layout.level_count);
        kernels.launch_tree_and_shares(stream, shape, &layout, &regions)?;
        if let Some(team) = layout.team {
            #[rustfmt::skip]
            let given = (
                sums, tree_levels, rows, references, starts, count, held, width, tail_row,
                first_sum, team,
            );
            let lanes = u64::from(count) * u64::from(team * TEAM_LANES);
            let grid = lanes.div_ceil(TEAM_BLOCK_THREADS.into()) as u32;
            kernels.teams.launch(stream, grid, given)?;
        }
        #[rustfmt::skip]
        let given = (
            buckets, sums, tree_levels, rows, references, starts, count, held, width, tail_row,
            first_sum,
        );
        let multiprocessors = self.limits.multiprocessors;
        if shape.xyzz {
            let resident = multiprocessors * kernels.to_xyzz_blocks;
            let grid = (count * TEAM_LANES).div_ceil(COPY_THREADS).min(resident);
            return kernels.to_xyzz.launch(stream, grid, given);
        }
        let resident = multiprocessors * kernels.copy_blocks;
        kernels.copy.launch(stream, count.div_ceil(COPY_THREADS).min(resident), given)?;
        let wave = multiprocessors * TO_AFFINE_THREADS;
        let blocks =
            (count / (wave * TO_AFFINE_BUCKETS_PER_THREAD)).clamp(1, kernels.to_affine_blocks);
        let grid = count.div_ceil(TO_AFFINE_THREADS).min(multiprocessors * blocks);
        kernels.to_affine.launch(stream, grid, given)
    }

    /// The first part of [`Accumulator::run`]: lists the additions by prefix sums over buckets,
    /// unless teams sum whole buckets. It reads no points.
    pub fn launch_listing(
        &self,
        stream: &Stream,
        shape: &AccumulateShape,
        SortedReferences { references, starts }: SortedReferences<'_>,
        buckets: DeviceSlice<'_, u8>,
        workspace: DeviceSlice<'_, u8>,
    ) -> Result<(), DeviceFault> {
        if references.len() < shape.references_max as usize
            || starts.len() <= shape.buckets as usize
        {
            return Err(fault("the spans of references or starts are too short"));
        }
        let held = held_index(shape, buckets)?;
        let count = shape.buckets;
        let method = AccumulateMethod::of(shape, &self.limits);
        let AccumulateMethod::TreeAndShares(layout) = method else { return Ok(()) };
        let kernels = self.kernels(&layout);
        let AccumulateRegions { tree_levels, totals, rows, list, first_sum, .. } =
            AccumulateRegions::split(shape, &layout, workspace).ok_or_else(short)?;
        let AccumulateLayout { level_count: levels, tiles, width, .. } = layout;
        kernels.count.launch(stream, tiles, (totals, starts, count, held, levels))?;
        let additions_min = shape.balance.level_additions_min.max(1);
        let largest_max = layout.team.map_or(0, |team| team * TEAM_ELEMENTS);
        let given = (tree_levels, totals, tiles, levels, additions_min, largest_max);
        kernels.scan.launch(stream, 1, given)?;
        let given = (rows, tree_levels, totals, starts, count, held, width, levels);
        kernels.rows.launch(stream, tiles, given)?;
        let blocks = shape.elements().div_ceil(LIST_THREADS.into());
        let resident = u64::from(self.limits.multiprocessors * kernels.list_blocks);
        let given =
            (list, tree_levels, rows, references, starts, count, held, width, levels, first_sum);
        kernels.list.launch(stream, blocks.clamp(1, resident) as u32, given)
    }
}

impl GroupKernels {
    fn launch_tree_and_shares(
        &self,
        stream: &Stream,
        shape: &AccumulateShape,
        layout: &AccumulateLayout,
        regions: &AccumulateRegions<'_>,
    ) -> Result<(), DeviceFault> {
        let &AccumulateRegions { tree_levels, list, sums, first_sum, .. } = regions;
        let &AccumulateRegions { scratch, heads, tails, states, .. } = regions;
        // Without a tree the layout has no levels.
        if let Some(tree) = &self.tree {
            for level in 1..=layout.level_count {
                let kernel = if level == 1 { &tree.first } else { &tree.level };
                let batch = layout.batch_additions;
                let given = (sums, scratch, tree_levels, list, first_sum, level, batch);
                kernel.launch(stream, tree.batch.blocks, given)?;
            }
        }
        let shares = layout.units[0];
        let share_min = shape.balance.share_references_min.max(1);
        let given = (sums, heads, tails, states, tree_levels, list, first_sum, shares, share_min);
        self.share.launch(stream, shares.div_ceil(self.share_threads), given)?;
        let given = (sums, heads, tails, states, tree_levels, list, shares, share_min);
        self.join.launch(stream, (shares * TEAM_LANES).div_ceil(TEAM_BLOCK_THREADS), given)?;
        let mut from = 0;
        for (round, units) in (0..).zip(layout.units.windows(2)) {
            let to = from + units[0];
            let given =
                (sums, heads, tails, states, tree_levels, from, to, round, shares, share_min);
            self.merge.launch(stream, units[1], given)?;
            from = to;
        }
        Ok(())
    }
}

struct AccumulateRegions<'a> {
    tree_levels: DeviceSlice<'a, u32>,
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
    fn split(
        shape: &AccumulateShape,
        layout: &AccumulateLayout,
        workspace: DeviceSlice<'a, u8>,
    ) -> Option<Self> {
        let sums = region(workspace, layout.sums.clone())?;
        let AlignedPoints { span: sums, first: first_sum } = AlignedPoints::of(sums, shape.group)?;
        Some(Self {
            tree_levels: region(workspace, layout.levels.clone())?,
            totals: region(workspace, layout.totals.clone())?,
            rows: region(workspace, layout.rows.clone())?,
            list: region(workspace, layout.list.clone())?,
            scratch: region(workspace, layout.scratch.clone())?,
            heads: region(workspace, layout.heads.clone())?,
            tails: region(workspace, layout.tails.clone())?,
            states: region(workspace, layout.unit_states.clone())?,
            sums,
            first_sum,
        })
    }
}

/// The index of the first bucket's sum, or `NO_HELD_SUMS`.
fn held_index(shape: &AccumulateShape, buckets: DeviceSlice<'_, u8>) -> Result<u32, DeviceFault> {
    if buckets.len() / shape.sum_bytes() < shape.buckets as usize {
        return Err(fault("the buckets' span is too short"));
    }
    if !shape.accumulate {
        return Ok(NO_HELD_SUMS);
    }
    if shape.xyzz {
        return Err(fault("sums cannot be added onto XYZZ buckets"));
    }
    match AlignedPoints::of(buckets, shape.group) {
        Some(aligned) if aligned.span.len() == buckets.len() => Ok(aligned.first),
        _ => Err(fault("references cannot name the buckets at this address")),
    }
}

fn fault(problem: &str) -> DeviceFault {
    kernel_fault(KERNEL, problem)
}
