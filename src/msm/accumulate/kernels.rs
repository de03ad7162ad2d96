//! Loads the kernels of the bucket accumulation.

use super::blocks::{Batch, ShareBlock};
use crate::{
    curve::Group,
    device::{Block, Context, DeviceLimits, Fault, Kernel, Module, Parameters, Ptr, Unusable},
};

/// Threads per block, as the kernels are compiled. Planning and copying take 3 % of the bucket
/// accumulation at 2^20 and 2 % at 2^24 on an H200. Other sizes were not measured.
pub(super) const LIST_THREADS: u32 = 256;
pub(super) const PLACE_THREADS: u32 = 256;
pub(super) const SCAN_THREADS: u32 = 1024;
pub(super) const COPY_THREADS: u32 = 256;
pub(super) const COLLECT_THREADS: u32 = 128;
/// Lanes per sum in `joined.cuh` and `rounds.cuh`, and threads of their blocks.
pub(super) const SPLIT: u32 = 4;
pub(super) const SPLIT_THREADS: u32 = 128;

/// Parameters: totals, starts, buckets, held, levels.
type Count = Kernel<(Ptr<u32>, Ptr<u32>, u32, u32, u32)>;
/// Parameters: result, totals, tiles, levels, least, team_most.
type Scan = Kernel<(Ptr<u32>, Ptr<u32>, u32, u32, u32, u32)>;
/// Parameters: rows, result, totals, starts, buckets, held, width, levels.
type Place = Kernel<(Ptr<u32>, Ptr<u32>, Ptr<u32>, Ptr<u32>, u32, u32, u32, u32)>;
/// Parameters: list, result, rows, references, starts, buckets, held, width, levels, sums.
type List = Kernel<(Ptr<u64>, Ptr<u32>, Ptr<u32>, Ptr<u32>, Ptr<u32>, u32, u32, u32, u32, u32)>;
/// Parameters: sums, scratch, levels, list, sums_index, level, chain.
type Level = Kernel<(Ptr<u8>, Ptr<u8>, Ptr<u32>, Ptr<u64>, u32, u32, u32)>;
/// Parameters: sums, heads, tails, units, levels, list, sums_index, most, least.
type Share = Kernel<(Ptr<u8>, Ptr<u8>, Ptr<u8>, Ptr<u64>, Ptr<u32>, Ptr<u64>, u32, u32, u32)>;
/// Parameters: sums, levels, rows, references, starts, buckets, held, width, tail_row, sums_index,
/// team.
type Teams =
    Kernel<(Ptr<u8>, Ptr<u32>, Ptr<u32>, Ptr<u32>, Ptr<u32>, u32, u32, u32, u32, u32, u32)>;
/// Parameters: sums, heads, tails, units, levels, list, most, least.
type Join = Kernel<(Ptr<u8>, Ptr<u8>, Ptr<u8>, Ptr<u64>, Ptr<u32>, Ptr<u64>, u32, u32)>;
/// Parameters: sums, heads, tails, units, levels, from, to, round, most, least.
type Merge = Kernel<(Ptr<u8>, Ptr<u8>, Ptr<u8>, Ptr<u64>, Ptr<u32>, u32, u32, u32, u32, u32)>;
/// Parameters: out, sums, levels, rows, references, starts, buckets, held, width, tail_row,
/// sums_index.
type Collect =
    Kernel<(Ptr<u8>, Ptr<u8>, Ptr<u32>, Ptr<u32>, Ptr<u32>, Ptr<u32>, u32, u32, u32, u32, u32)>;

/// All kernels. With `early` they use programmatic dependent launch (PDL).
pub struct Kernels {
    pub count: Count,
    pub scan: Scan,
    pub place: Place,
    pub list: List,
    /// Resident blocks of `list` per multiprocessor.
    pub list_blocks: u32,
    pub g1: Sums,
    pub g2: Sums,
}

/// The kernels of one group.
pub struct Sums {
    /// `None` on devices with too little shared memory.
    pub tree: Option<TreeKernels>,
    pub share: Share,
    pub share_threads: u32,
    pub teams: Teams,
    pub join: Join,
    pub merge: Merge,
    pub copy: Collect,
    pub collect: Collect,
    pub spread: Collect,
    /// Resident blocks of `copy`, `collect` and `spread` per multiprocessor.
    pub copy_blocks: u32,
    pub collect_blocks: u32,
    pub spread_blocks: u32,
}

/// The kernels of the tree's levels.
pub struct TreeKernels {
    pub batch: Batch,
    pub first: Level,
    pub level: Level,
}

pub struct Modules {
    levels: Module,
    tree: Module,
    balanced: Module,
}

impl Modules {
    pub fn load(context: &Context) -> Result<Self, Unusable> {
        let load = |name| Module::load(context, name);
        let (levels, tree) = (load("msm/levels")?, load("msm/tree")?);
        Ok(Self { levels, tree, balanced: load("msm/balanced")? })
    }
}

fn load_kernel<P: Parameters>(
    module: &Module,
    early: bool,
    name: &str,
    block: Block,
) -> Result<Kernel<P>, Fault> {
    let kernel = module.kernel(name, block)?;
    Ok(if early { kernel.starting_early() } else { kernel })
}

impl Kernels {
    pub fn load(modules: &Modules, limits: &DeviceLimits, early: bool) -> Result<Self, Fault> {
        let (levels, block) = (&modules.levels, Block::of);
        let list: List = load_kernel(levels, early, "msm_levels_list", block(LIST_THREADS))?;
        Ok(Self {
            count: load_kernel(levels, early, "msm_levels_count", block(PLACE_THREADS))?,
            scan: load_kernel(levels, early, "msm_levels_scan", block(SCAN_THREADS))?,
            place: load_kernel(levels, early, "msm_levels_place", block(PLACE_THREADS))?,
            list_blocks: list.resident_blocks()?,
            list,
            g1: Sums::load(modules, Group::G1, limits, early)?,
            g2: Sums::load(modules, Group::G2, limits, early)?,
        })
    }

    pub fn sums(&self, group: Group) -> &Sums {
        match group {
            Group::G1 => &self.g1,
            Group::G2 => &self.g2,
        }
    }
}

impl Sums {
    fn load(
        modules: &Modules,
        group: Group,
        limits: &DeviceLimits,
        early: bool,
    ) -> Result<Self, Fault> {
        let Modules { tree, balanced, .. } = modules;
        let named = |what: &str| format!("{}_balanced_{what}", group.name());
        let ShareBlock { block: share, .. } = ShareBlock::of(group);
        let [copy, collect, spread] =
            [("copy", COPY_THREADS), ("collect", COLLECT_THREADS), ("spread", COPY_THREADS)].map(
                |(what, threads)| -> Result<Collect, Fault> {
                    load_kernel(balanced, early, &named(what), Block::of(threads))
                },
            );
        let (copy, collect, spread) = (copy?, collect?, spread?);
        Ok(Self {
            tree: TreeKernels::load(tree, group, limits)?,
            share: load_kernel(balanced, early, &named("share"), share)?,
            share_threads: share.threads,
            teams: load_kernel(balanced, early, &named("teams"), Block::of(SPLIT_THREADS))?,
            join: load_kernel(balanced, early, &named("join"), Block::of(SPLIT_THREADS))?,
            merge: load_kernel(balanced, early, &named("merge"), Block::of(SPLIT_THREADS))?,
            copy_blocks: copy.resident_blocks()?,
            collect_blocks: collect.resident_blocks()?,
            spread_blocks: spread.resident_blocks()?,
            copy,
            collect,
            spread,
        })
    }
}

impl TreeKernels {
    fn load(module: &Module, group: Group, limits: &DeviceLimits) -> Result<Option<Self>, Fault> {
        let Some(batch) = Batch::of(group, limits) else { return Ok(None) };
        let first = match group {
            Group::G1 => "g1_tree_first",
            Group::G2 => "g2_tree_level",
        };
        let (level, block) = (format!("{}_tree_level", group.name()), Batch::block(group));
        let first = module.kernel(first, block)?;
        Ok(Some(Self { batch, first, level: module.kernel(&level, block)? }))
    }
}
