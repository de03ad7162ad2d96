//! Loads the kernels of the bucket accumulation.

use super::blocks::TreeBlocks;
use crate::{
    curve::Group,
    device::{
        BlockShape, DeviceFault, DeviceLimits, DevicePtr, Kernel, KernelModule, KernelParameters,
    },
    msm::launch::{PerGroup, SerialSumBlocks},
};

pub(super) const KERNEL: &str = "accumulation";

/// Threads per block, as the kernels are compiled. Not tuned: planning and copying take at most 3 %
/// of the bucket accumulation (`benches/experiments/msm.md`).
pub(super) const LIST_THREADS: u32 = 256;
pub(super) const LEVEL_THREADS: u32 = 256;
pub(super) const SCAN_THREADS: u32 = 1024;
pub(super) const COPY_THREADS: u32 = 256;
pub(super) const TO_AFFINE_THREADS: u32 = 128;
/// Lanes per sum in `team_sums.cuh` and `merge_shares.cuh`, and threads of their blocks.
pub(super) const TEAM_LANES: u32 = 4;
pub(super) const TEAM_BLOCK_THREADS: u32 = 128;

pub(super) const FIRST_LEVEL: PerGroup<&str> = PerGroup { g1: "tree_first", g2: "tree_level" };

/// Parameters: totals, starts, buckets, held, levels.
type CountKernel = Kernel<(DevicePtr<u32>, DevicePtr<u32>, u32, u32, u32)>;
/// Parameters: tree_levels, totals, tiles, levels, additions_min, largest_max.
type ScanKernel = Kernel<(DevicePtr<u32>, DevicePtr<u32>, u32, u32, u32, u32)>;
/// Parameters: rows, tree_levels, totals, starts, buckets, held, width, levels.
type LevelRowsKernel =
    Kernel<(DevicePtr<u32>, DevicePtr<u32>, DevicePtr<u32>, DevicePtr<u32>, u32, u32, u32, u32)>;
/// Parameters: list, tree_levels, rows, references, starts, buckets, held, width, levels, sums.
#[rustfmt::skip]
type ListKernel = Kernel<(
    DevicePtr<u64>, DevicePtr<u32>, DevicePtr<u32>, DevicePtr<u32>, DevicePtr<u32>, u32, u32,
    u32, u32, u32,
)>;
/// Parameters: sums, scratch, levels, list, sums_index, level, chain.
type LevelKernel =
    Kernel<(DevicePtr<u8>, DevicePtr<u8>, DevicePtr<u32>, DevicePtr<u64>, u32, u32, u32)>;
/// Parameters: sums, heads, tails, units, levels, list, sums_index, shares_max, share_min.
#[rustfmt::skip]
type ShareKernel = Kernel<(
    DevicePtr<u8>, DevicePtr<u8>, DevicePtr<u8>, DevicePtr<u64>, DevicePtr<u32>, DevicePtr<u64>,
    u32, u32, u32,
)>;
/// Parameters: sums, levels, rows, references, starts, buckets, held, width, tail_row, sums_index,
/// team.
#[rustfmt::skip]
type TeamsKernel = Kernel<(
    DevicePtr<u8>, DevicePtr<u32>, DevicePtr<u32>, DevicePtr<u32>, DevicePtr<u32>, u32, u32,
    u32, u32, u32, u32,
)>;
/// Parameters: sums, heads, tails, units, levels, list, shares_max, share_min.
#[rustfmt::skip]
type JoinKernel = Kernel<(
    DevicePtr<u8>, DevicePtr<u8>, DevicePtr<u8>, DevicePtr<u64>, DevicePtr<u32>, DevicePtr<u64>,
    u32, u32,
)>;
/// Parameters: sums, heads, tails, units, levels, from, to, round, shares_max, share_min.
#[rustfmt::skip]
type MergeKernel = Kernel<(
    DevicePtr<u8>, DevicePtr<u8>, DevicePtr<u8>, DevicePtr<u64>, DevicePtr<u32>, u32, u32, u32,
    u32, u32,
)>;
/// Parameters: out, sums, levels, rows, references, starts, buckets, held, width, tail_row,
/// sums_index.
#[rustfmt::skip]
type WriteBucketsKernel = Kernel<(
    DevicePtr<u8>, DevicePtr<u8>, DevicePtr<u32>, DevicePtr<u32>, DevicePtr<u32>,
    DevicePtr<u32>, u32, u32, u32, u32, u32,
)>;

/// All kernels, with or without programmatic dependent launch (PDL).
pub struct AccumulateKernels {
    pub count: CountKernel,
    pub scan: ScanKernel,
    pub rows: LevelRowsKernel,
    pub list: ListKernel,
    /// Resident blocks of `list` per multiprocessor.
    pub list_blocks: u32,
    pub sums: PerGroup<GroupKernels>,
}

pub struct GroupKernels {
    /// `None` on devices with too little shared memory.
    pub tree: Option<TreeKernels>,
    pub share: ShareKernel,
    pub share_threads: u32,
    pub teams: TeamsKernel,
    pub join: JoinKernel,
    pub merge: MergeKernel,
    pub copy: WriteBucketsKernel,
    pub to_affine: WriteBucketsKernel,
    pub to_xyzz: WriteBucketsKernel,
    /// Resident blocks of `copy`, `to_affine` and `to_xyzz` per multiprocessor.
    pub copy_blocks: u32,
    pub to_affine_blocks: u32,
    pub to_xyzz_blocks: u32,
}

pub struct TreeKernels {
    pub batch: TreeBlocks,
    pub first: LevelKernel,
    pub level: LevelKernel,
}

fn load_kernel<P: KernelParameters>(
    module: &KernelModule,
    is_pdl: bool,
    name: &str,
    block: BlockShape,
) -> Result<Kernel<P>, DeviceFault> {
    let kernel = module.kernel(name, block)?;
    Ok(if is_pdl { kernel.with_pdl() } else { kernel })
}

impl AccumulateKernels {
    pub fn load(
        [levels, tree, balanced]: &[KernelModule; 3],
        limits: &DeviceLimits,
        is_pdl: bool,
    ) -> Result<Self, DeviceFault> {
        let block = BlockShape::threads;
        let sums = |group| GroupKernels::load(tree, balanced, group, limits, is_pdl);
        let list: ListKernel = load_kernel(levels, is_pdl, "msm_levels_list", block(LIST_THREADS))?;
        Ok(Self {
            count: load_kernel(levels, is_pdl, "msm_levels_count", block(LEVEL_THREADS))?,
            scan: load_kernel(levels, is_pdl, "msm_levels_scan", block(SCAN_THREADS))?,
            rows: load_kernel(levels, is_pdl, "msm_levels_rows", block(LEVEL_THREADS))?,
            list_blocks: list.resident_blocks()?,
            list,
            sums: PerGroup::load(sums)?,
        })
    }
}

impl GroupKernels {
    fn load(
        tree: &KernelModule,
        balanced: &KernelModule,
        group: Group,
        limits: &DeviceLimits,
        is_pdl: bool,
    ) -> Result<Self, DeviceFault> {
        let named = |stage: &str| format!("{}_balanced_{stage}", group.name());
        let share = SerialSumBlocks::of(group).block;
        let block = BlockShape::threads;
        let team = block(TEAM_BLOCK_THREADS);
        let load_buckets = |stage, threads| -> Result<WriteBucketsKernel, DeviceFault> {
            load_kernel(balanced, is_pdl, &named(stage), block(threads))
        };
        let copy = load_buckets("copy", COPY_THREADS)?;
        let to_affine = load_buckets("to_affine", TO_AFFINE_THREADS)?;
        let to_xyzz = load_buckets("to_xyzz", COPY_THREADS)?;
        Ok(Self {
            tree: TreeKernels::load(tree, group, limits)?,
            share: load_kernel(balanced, is_pdl, &named("share"), share)?,
            share_threads: share.threads,
            teams: load_kernel(balanced, is_pdl, &named("teams"), team)?,
            // Without PDL: its blocks would wait on multiprocessors that other streams can use.
            join: load_kernel(balanced, false, &named("join"), team)?,
            merge: load_kernel(balanced, is_pdl, &named("merge"), team)?,
            copy_blocks: copy.resident_blocks()?,
            to_affine_blocks: to_affine.resident_blocks()?,
            to_xyzz_blocks: to_xyzz.resident_blocks()?,
            copy,
            to_affine,
            to_xyzz,
        })
    }
}

impl TreeKernels {
    fn load(
        module: &KernelModule,
        group: Group,
        limits: &DeviceLimits,
    ) -> Result<Option<Self>, DeviceFault> {
        let Some(batch) = TreeBlocks::of(group, limits) else { return Ok(None) };
        let load =
            |stage| module.kernel(&format!("{}_{stage}", group.name()), TreeBlocks::block(group));
        Ok(Some(Self { batch, first: load(FIRST_LEVEL.of(group))?, level: load("tree_level")? }))
    }
}
