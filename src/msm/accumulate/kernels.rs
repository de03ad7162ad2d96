//! The kernels of sums, as they are loaded on a device.

use super::layout::Batch;
use crate::{
    curve::Group,
    device::{Block, Context, Fault, Kernel, Module, Parameters, Ptr, Unusable},
};

/// Threads of blocks, as the kernels are compiled: they plan and copy, which on an H200 is 3 % of
/// the sums at 2^20 and 2 at 2^24. Other widths were not measured.
pub(super) const LIST_THREADS: u32 = 256;
pub(super) const PLACE_THREADS: u32 = 256;
pub(super) const SCAN_THREADS: u32 = 1024;
pub(super) const COPY_THREADS: u32 = 256;
pub(super) const COLLECT_THREADS: u32 = 128;
/// Lanes of a sum in `joined.cuh` and `rounds.cuh`, and threads of their blocks.
pub(super) const SPLIT: u32 = 4;
pub(super) const SPLIT_THREADS: u32 = 128;

/// totals, starts, buckets, held, levels.
type Count = Kernel<(Ptr<u32>, Ptr<u32>, u32, u32, u32)>;
/// result, totals, tiles, levels, least, team_most.
type Scan = Kernel<(Ptr<u32>, Ptr<u32>, u32, u32, u32, u32)>;
/// rows, result, totals, starts, buckets, held, width, levels.
type Place = Kernel<(Ptr<u32>, Ptr<u32>, Ptr<u32>, Ptr<u32>, u32, u32, u32, u32)>;
/// list, result, rows, references, starts, buckets, held, width, levels, sums.
type List = Kernel<(Ptr<u64>, Ptr<u32>, Ptr<u32>, Ptr<u32>, Ptr<u32>, u32, u32, u32, u32, u32)>;
/// sums, scratch, levels, list, sums_index, level, chain.
type Level = Kernel<(Ptr<u8>, Ptr<u8>, Ptr<u32>, Ptr<u64>, u32, u32, u32)>;
/// sums, heads, tails, units, levels, list, sums_index, most, least.
type Share = Kernel<(Ptr<u8>, Ptr<u8>, Ptr<u8>, Ptr<u64>, Ptr<u32>, Ptr<u64>, u32, u32, u32)>;
/// sums, levels, rows, references, starts, buckets, held, width, tail_row, sums_index, team.
type Teams =
    Kernel<(Ptr<u8>, Ptr<u32>, Ptr<u32>, Ptr<u32>, Ptr<u32>, u32, u32, u32, u32, u32, u32)>;
/// sums, heads, tails, units, levels, list, most, least.
type Join = Kernel<(Ptr<u8>, Ptr<u8>, Ptr<u8>, Ptr<u64>, Ptr<u32>, Ptr<u64>, u32, u32)>;
/// sums, heads, tails, units, levels, from, to, round, most, least.
type Merge = Kernel<(Ptr<u8>, Ptr<u8>, Ptr<u8>, Ptr<u64>, Ptr<u32>, u32, u32, u32, u32, u32)>;
/// out, sums, levels, rows, references, starts, buckets, held, width, tail_row, sums_index.
type Collect =
    Kernel<(Ptr<u8>, Ptr<u8>, Ptr<u32>, Ptr<u32>, Ptr<u32>, Ptr<u32>, u32, u32, u32, u32, u32)>;

/// All of them; those that are loaded early may start before the kernel before them has ended.
pub struct Kernels {
    pub count: Count,
    pub scan: Scan,
    pub place: Place,
    pub list: List,
    pub g1: Sums,
    pub g2: Sums,
}

/// What depends on the group.
pub struct Sums {
    pub batch: Batch,
    pub first: Level,
    pub level: Level,
    pub share: Share,
    pub share_threads: u32,
    pub teams: Teams,
    pub join: Join,
    pub merge: Merge,
    pub copy: Collect,
    pub collect: Collect,
    pub spread: Collect,
    /// Blocks a multiprocessor.
    pub collect_blocks: u32,
}

/// The stage's code.
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

fn find<P: Parameters>(
    module: &Module,
    early: bool,
    name: &str,
    block: Block,
) -> Result<Kernel<P>, Fault> {
    let kernel = module.kernel(name, block)?;
    Ok(if early { kernel.starting_early() } else { kernel })
}

impl Kernels {
    pub fn load(modules: &Modules, processors: u32, early: bool) -> Result<Self, Fault> {
        let (levels, block) = (&modules.levels, Block::of);
        Ok(Self {
            count: find(levels, early, "msm_levels_count", block(PLACE_THREADS))?,
            scan: find(levels, early, "msm_levels_scan", block(SCAN_THREADS))?,
            place: find(levels, early, "msm_levels_place", block(PLACE_THREADS))?,
            list: find(levels, early, "msm_levels_list", block(LIST_THREADS))?,
            g1: Sums::load(modules, Group::G1, processors, early)?,
            g2: Sums::load(modules, Group::G2, processors, early)?,
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
    fn load(modules: &Modules, group: Group, processors: u32, early: bool) -> Result<Self, Fault> {
        let Modules { tree, balanced, .. } = modules;
        let coordinate = group.coordinate_bytes() as u32;
        let block = |threads, coordinates: u32| Block {
            threads,
            shared_bytes: coordinates * coordinate * threads,
        };
        // Columns of the tree are two elements longer than threads are: kernels/batch/stage.cuh.
        let staged = |threads| Block { threads, shared_bytes: 5 * coordinate * (threads + 2) };
        let named = |what: &str| format!("{}_{what}", group.name());
        let (share_threads, columns, collect_blocks) = match group {
            Group::G1 => (128, 2, 3),
            Group::G2 => (256, 6, 2),
        };
        let first = match group {
            Group::G1 => "tree_first",
            Group::G2 => "tree_level",
        };
        let batch = Batch::of(group, processors);
        let threads = batch.threads;
        Ok(Self {
            batch,
            first: tree.kernel(&named(first), staged(threads))?,
            level: tree.kernel(&named("tree_level"), staged(threads))?,
            share: find(balanced, early, &named("balanced_share"), block(share_threads, columns))?,
            share_threads,
            teams: find(balanced, early, &named("balanced_teams"), Block::of(SPLIT_THREADS))?,
            join: find(balanced, early, &named("balanced_join"), Block::of(SPLIT_THREADS))?,
            merge: find(balanced, early, &named("balanced_merge"), Block::of(SPLIT_THREADS))?,
            copy: find(balanced, early, &named("balanced_copy"), Block::of(COPY_THREADS))?,
            collect: find(balanced, early, &named("balanced_collect"), Block::of(COLLECT_THREADS))?,
            spread: find(balanced, early, &named("balanced_spread"), Block::of(COPY_THREADS))?,
            collect_blocks,
        })
    }
}
