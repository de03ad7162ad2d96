//! From sorted references to one affine sum a bucket: `kernels/msm/{levels,tree,balanced}.cu`.
//!
//! The bulk is a tree: each level adds neighbours of all buckets, in batches that share inversions.
//! What is left when levels become small, or all of it where there is little, is cut into equal
//! shares and added in XYZZ coordinates. Both cost the same whatever bucket the references are in.
//! The device finds out by itself how many there are, and which levels pay.

mod layout;

pub use layout::{Balance, Shape};

use bytemuck::Pod;

use self::layout::{Batch, Layout, TEAM_ELEMENTS};
use super::whole_points;
use crate::{
    curve::Group,
    device::{Block, Context, Fault, Kernel, Module, Ptr, Span, Stream, Unusable},
};

/// Threads of blocks, as the kernels are compiled: they plan and copy, which on an H200 is 3 % of
/// the sums at 2^20 and 2 at 2^24. Other widths were not measured.
const LIST_THREADS: u32 = 256;
const PLACE_THREADS: u32 = 256;
const SCAN_THREADS: u32 = 1024;
const COPY_THREADS: u32 = 256;
const COLLECT_THREADS: u32 = 128;
/// Buckets that a thread collects before another block a multiprocessor pays: it may have to
/// invert, which takes as long as four, and blocks share the multiplier.
const COLLECT_OWN: u32 = 4;
/// Lanes of a sum in `joined.cuh` and `rounds.cuh`, and threads of their blocks.
const SPLIT: u32 = 4;
const SPLIT_THREADS: u32 = 128;
/// Blocks a multiprocessor of the kernels that list and copy: as many as fit by their registers, 48
/// a thread and 64 at most.
const LIST_BLOCKS: u32 = 5;
const COPY_BLOCKS: u32 = 4;
/// Buckets hold no sums: see `kernels/msm/levels.cuh`.
const NOTHING_HELD: u32 = u32::MAX;

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

/// The stage's code on one device.
pub struct Accumulator {
    /// Multiprocessors.
    processors: u32,
    count: Count,
    scan: Scan,
    place: Place,
    list: List,
    g1: Sums,
    g2: Sums,
}

/// What depends on the group.
struct Sums {
    batch: Batch,
    first: Level,
    level: Level,
    share: Share,
    share_threads: u32,
    teams: Teams,
    join: Join,
    merge: Merge,
    copy: Collect,
    collect: Collect,
    spread: Collect,
    /// Blocks a multiprocessor.
    collect_blocks: u32,
}

/// What the stage reads.
#[derive(Clone, Copy)]
pub struct Sorted<'a> {
    /// Shape: [`Shape::digits`] words. References by bucket, in any order within one.
    pub references: Span<'a, u32>,
    /// Shape: [`Shape::buckets`] + 1 words, ascending from 0: where each bucket's references begin,
    /// and where the last one's end.
    pub starts: Span<'a, u32>,
}

impl Accumulator {
    /// Loads the kernels.
    ///
    /// Errors: `NoKernels`, `NoImage`, `Device`.
    pub fn load(context: &Context) -> Result<Self, Unusable> {
        let failed = |fault| Unusable::Device { index: context.identity().index, fault };
        let levels = Module::load(context, "msm/levels")?;
        let tree = Module::load(context, "msm/tree")?;
        let balanced = Module::load(context, "msm/balanced")?;
        let processors = context.identity().units;
        let sums = |group| Sums::load(&tree, &balanced, group, processors).map_err(failed);
        Ok(Self {
            processors,
            count: levels.early("msm_levels_count", Block::of(PLACE_THREADS)).map_err(failed)?,
            scan: levels.early("msm_levels_scan", Block::of(SCAN_THREADS)).map_err(failed)?,
            place: levels.early("msm_levels_place", Block::of(PLACE_THREADS)).map_err(failed)?,
            list: levels.early("msm_levels_list", Block::of(LIST_THREADS)).map_err(failed)?,
            g1: sums(Group::G1)?,
            g2: sums(Group::G2)?,
        })
    }

    /// Bytes of workspace that [`Accumulator::run`] wants.
    pub fn bytes(&self, shape: &Shape) -> u64 {
        shape.bytes(self.processors)
    }

    /// `buckets[b]` becomes the sum of the bucket's points, or that added to what is there.
    ///
    /// Shape: `buckets` has [`Shape::buckets`] points, and begins at the number of one
    /// ([`whole_points`]) where sums are added onto it; `workspace` has [`Accumulator::bytes`],
    /// with anything in it, and is on the same arena as the points that references name. Points are
    /// read and written in Montgomery form, x canonical, y below 2p, infinity as zeros (y = p or 2p
    /// is read as zero, too); with [`Shape::xyzz`] sums are x, y, zz and zzz below 2p, infinity has
    /// zz = 0.
    ///
    /// Errors: `Kernel` where a span is too short or lies wrong; what the driver says.
    pub fn run(
        &self,
        stream: &Stream,
        shape: &Shape,
        sorted: Sorted<'_>,
        buckets: Span<'_, u8>,
        workspace: Span<'_, u8>,
    ) -> Result<(), Fault> {
        self.plan(stream, shape, sorted, buckets, workspace)?;
        self.add(stream, shape, sorted, buckets, workspace)
    }

    /// The second part of [`Accumulator::run`]: adds all points.
    ///
    /// Errors: as there.
    pub fn add(
        &self,
        stream: &Stream,
        shape: &Shape,
        sorted: Sorted<'_>,
        buckets: Span<'_, u8>,
        workspace: Span<'_, u8>,
    ) -> Result<(), Fault> {
        let sums = self.sums(shape.group);
        let layout = Layout::of(shape, &sums.batch);
        let room = Room::new(shape, &layout, workspace)?;
        let Room { header, rows, .. } = room;
        let Sorted { references, starts } = sorted;
        let (held, count, width) = (held(shape, buckets)?, shape.buckets, layout.width);
        let (tail_row, number) = (layout.level_count, room.number);
        sums.add(stream, shape, &layout, &room)?;
        if let Some(team) = layout.team {
            let given = (
                room.sums, header, rows, references, starts, count, held, width, tail_row, number,
                team,
            );
            let lanes = u64::from(count) * u64::from(team * SPLIT);
            sums.teams.launch(stream, lanes.div_ceil(SPLIT_THREADS.into()) as u32, given)?;
        }
        let wave = self.processors * COLLECT_THREADS;
        let full = (count / (wave * COLLECT_OWN)).clamp(1, sums.collect_blocks);
        let grid = count.div_ceil(COLLECT_THREADS).min(self.processors * full);
        let given = (
            buckets, room.sums, header, rows, references, starts, count, held, width, tail_row,
            number,
        );
        let most = self.processors * COPY_BLOCKS;
        if shape.xyzz {
            let groups = (count * SPLIT).div_ceil(COPY_THREADS).min(most);
            return sums.spread.launch(stream, groups, given);
        }
        let copies = count.div_ceil(COPY_THREADS).min(most);
        sums.copy.launch(stream, copies, given)?;
        sums.collect.launch(stream, grid, given)
    }

    /// The first part of [`Accumulator::run`]: lists all additions. It reads no point.
    ///
    /// Errors: as there.
    pub fn plan(
        &self,
        stream: &Stream,
        shape: &Shape,
        sorted: Sorted<'_>,
        buckets: Span<'_, u8>,
        workspace: Span<'_, u8>,
    ) -> Result<(), Fault> {
        let Sorted { references, starts } = sorted;
        if references.len() < shape.digits as usize || starts.len() <= shape.buckets as usize {
            return Err(refuse("references or starts are too few"));
        }
        let layout = Layout::of(shape, &self.sums(shape.group).batch);
        let Room { header, totals, rows, list, number, .. } = Room::new(shape, &layout, workspace)?;
        let Layout { level_count: levels, tiles, width, .. } = layout;
        let (held, count) = (held(shape, buckets)?, shape.buckets);
        self.count.launch(stream, tiles, (totals, starts, count, held, levels))?;
        let least = shape.balance.level_min.max(1);
        let team_most = layout.team.map_or(0, |team| team * TEAM_ELEMENTS);
        self.scan.launch(stream, 1, (header, totals, tiles, levels, least, team_most))?;
        let given = (rows, header, totals, starts, count, held, width, levels);
        self.place.launch(stream, tiles, given)?;
        let blocks = shape.elements().div_ceil(LIST_THREADS.into());
        let grid = blocks.clamp(1, u64::from(self.processors * LIST_BLOCKS)) as u32;
        let given = (list, header, rows, references, starts, count, held, width, levels, number);
        self.list.launch(stream, grid, given)
    }

    fn sums(&self, group: Group) -> &Sums {
        match group {
            Group::G1 => &self.g1,
            Group::G2 => &self.g2,
        }
    }
}

impl Sums {
    fn load(
        tree: &Module,
        balanced: &Module,
        group: Group,
        processors: u32,
    ) -> Result<Self, Fault> {
        let coordinate = group.coordinate_bytes() as u32;
        let block = |threads, coordinates: u32| Block {
            threads,
            shared_bytes: coordinates * coordinate * threads,
        };
        // Columns of the tree are two elements longer than threads are: see kernels/batch/stage.cuh.
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
            first: tree.early(&named(first), staged(threads))?,
            level: tree.early(&named("tree_level"), staged(threads))?,
            share: balanced.early(&named("balanced_share"), block(share_threads, columns))?,
            share_threads,
            teams: balanced.early(&named("balanced_teams"), Block::of(SPLIT_THREADS))?,
            join: balanced.early(&named("balanced_join"), Block::of(SPLIT_THREADS))?,
            merge: balanced.early(&named("balanced_merge"), Block::of(SPLIT_THREADS))?,
            copy: balanced.early(&named("balanced_copy"), Block::of(COPY_THREADS))?,
            collect: balanced.early(&named("balanced_collect"), Block::of(COLLECT_THREADS))?,
            spread: balanced.early(&named("balanced_spread"), Block::of(COPY_THREADS))?,
            collect_blocks,
        })
    }

    /// All additions that `list` names.
    fn add(
        &self,
        stream: &Stream,
        shape: &Shape,
        layout: &Layout,
        room: &Room<'_>,
    ) -> Result<(), Fault> {
        let &Room { header, list, scratch, heads, tails, states, sums, number, .. } = room;
        for level in 1..=layout.level_count {
            let kernel = if level == 1 { &self.first } else { &self.level };
            let given = (sums, scratch, header, list, number, level, layout.chain);
            kernel.launch(stream, self.batch.blocks, given)?;
        }
        let (most, least) = (layout.units[0], shape.balance.share_min.max(1));
        let given = (sums, heads, tails, states, header, list, number, most, least);
        self.share.launch(stream, most.div_ceil(self.share_threads), given)?;
        let given = (sums, heads, tails, states, header, list, most, least);
        self.join.launch(stream, (most * SPLIT).div_ceil(SPLIT_THREADS), given)?;
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

/// The workspace, cut up.
#[derive(Clone, Copy)]
struct Room<'a> {
    header: Span<'a, u32>,
    totals: Span<'a, u32>,
    rows: Span<'a, u32>,
    list: Span<'a, u64>,
    scratch: Span<'a, u8>,
    heads: Span<'a, u8>,
    tails: Span<'a, u8>,
    states: Span<'a, u64>,
    sums: Span<'a, u8>,
    /// The first sum's, as a reference.
    number: u32,
}

impl<'a> Room<'a> {
    fn new(shape: &Shape, layout: &Layout, workspace: Span<'a, u8>) -> Result<Self, Fault> {
        let short = || refuse("the workspace is too small, or lies too far from the points");
        let (sums, number) = part(workspace, layout.sums, layout.bytes)
            .and_then(|sums| whole_points(sums, shape.group))
            .ok_or_else(short)?;
        Ok(Self {
            header: part(workspace, layout.levels, layout.totals).ok_or_else(short)?,
            totals: part(workspace, layout.totals, layout.rows).ok_or_else(short)?,
            rows: part(workspace, layout.rows, layout.list).ok_or_else(short)?,
            list: part(workspace, layout.list, layout.scratch).ok_or_else(short)?,
            scratch: part(workspace, layout.scratch, layout.heads).ok_or_else(short)?,
            heads: part(workspace, layout.heads, layout.tails).ok_or_else(short)?,
            tails: part(workspace, layout.tails, layout.unit_states).ok_or_else(short)?,
            states: part(workspace, layout.unit_states, layout.sums).ok_or_else(short)?,
            sums,
            number,
        })
    }
}

/// Bytes `begin..end`, as elements.
fn part<T: Pod>(whole: Span<'_, u8>, begin: u64, end: u64) -> Option<Span<'_, T>> {
    whole.part(begin as usize, (end - begin) as usize)?.cast()
}

/// The reference of the first bucket's sum.
fn held(shape: &Shape, buckets: Span<'_, u8>) -> Result<u32, Fault> {
    if buckets.len() / shape.sum_bytes() < shape.buckets as usize {
        return Err(refuse("the buckets' span is too short"));
    }
    if !shape.onto {
        return Ok(NOTHING_HELD);
    }
    if shape.xyzz {
        return Err(refuse("nothing is added onto XYZZ coordinates"));
    }
    match whole_points(buckets, shape.group) {
        Some((whole, number)) if whole.len() == buckets.len() => Ok(number),
        _ => Err(refuse("the buckets do not lie where a reference can name them")),
    }
}

fn refuse(problem: &str) -> Fault {
    Fault::Kernel { kernel: "accumulation".into(), problem: problem.into() }
}
