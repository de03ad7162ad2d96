//! From sorted references to one sum a bucket: `kernels/msm/{whole,levels,tree,balanced}.cu`.
//!
//! Few are summed at once, by teams of lanes ([`whole`]). Of many, the bulk is a tree: each level
//! adds neighbours of all buckets, in batches that share inversions. What is left when levels
//! become small, or all of it where there is little, is cut into equal shares and added in XYZZ
//! coordinates. All cost the same whatever bucket the references are in. The device finds out by
//! itself how many there are, and which levels pay.

mod blocks;
mod kernels;
mod layout;
mod named;
mod whole;

pub use layout::{Balance, Shape, WHOLE_DIGITS};

use bytemuck::Pod;

use self::{
    blocks::Batch,
    kernels::{
        COLLECT_THREADS, COPY_THREADS, Kernels, LIST_THREADS, Modules, SPLIT, SPLIT_THREADS, Sums,
    },
    layout::{Layout, TEAM_ELEMENTS},
    whole::Cutting,
};
use super::whole_points;
use crate::{
    curve::Group,
    device::{Context, DeviceLimits, Fault, Span, Stream, Unusable},
};

/// Whether batches of affine additions fit into the shared memory of a device. Otherwise equal
/// shares of XYZZ additions do everything.
pub fn has_tree(group: Group, limits: &DeviceLimits) -> bool {
    Batch::of(group, limits).is_some()
}

/// Buckets that a thread collects before another block a multiprocessor pays: it may have to
/// invert, which takes as long as four, and blocks share the multiplier.
const COLLECT_OWN: u32 = 4;
/// Buckets hold no sums: see `kernels/msm/levels.cuh`.
const NOTHING_HELD: u32 = u32::MAX;

/// The stage's code on one device.
pub struct Accumulator {
    limits: DeviceLimits,
    /// Where there are no levels, and launches are short: these start before the one before them
    /// has ended. Beside levels, whose blocks want a multiprocessor each, sums took up to 4 % more
    /// so on an H200, and at times a level's whole time.
    early: Kernels,
    late: Kernels,
    whole: whole::Kernels,
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
        let modules = Modules::load(context)?;
        let limits = context.identity().limits;
        let kernels = |early| Kernels::load(&modules, &limits, early).map_err(failed);
        let whole = whole::Kernels::load(context)?;
        Ok(Self { limits, early: kernels(true)?, late: kernels(false)?, whole })
    }

    fn kernels(&self, layout: &Layout) -> &Kernels {
        if layout.level_count == 0 { &self.early } else { &self.late }
    }

    /// Bytes of workspace that [`Accumulator::run`] wants.
    pub fn bytes(&self, shape: &Shape) -> u64 {
        shape.bytes(&self.limits)
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
        let (held, count) = (held(shape, buckets)?, shape.buckets);
        if let Some(cutting) = Cutting::of(shape, &self.limits) {
            return self.whole.run(stream, (shape, &cutting), sorted, buckets, workspace);
        }
        let layout = self.layout(shape);
        let sums = self.kernels(&layout).sums(shape.group);
        let room = Room::new(shape, &layout, workspace)?;
        let Room { header, rows, .. } = room;
        let Sorted { references, starts } = sorted;
        let width = layout.width;
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
        let multiprocessors = self.limits.multiprocessors;
        let wave = multiprocessors * COLLECT_THREADS;
        let full = (count / (wave * COLLECT_OWN)).clamp(1, sums.collect_blocks);
        let grid = count.div_ceil(COLLECT_THREADS).min(multiprocessors * full);
        let given = (
            buckets, room.sums, header, rows, references, starts, count, held, width, tail_row,
            number,
        );
        if shape.xyzz {
            let most = multiprocessors * sums.spread_blocks;
            let groups = (count * SPLIT).div_ceil(COPY_THREADS).min(most);
            return sums.spread.launch(stream, groups, given);
        }
        let copies = count.div_ceil(COPY_THREADS).min(multiprocessors * sums.copy_blocks);
        sums.copy.launch(stream, copies, given)?;
        sums.collect.launch(stream, grid, given)
    }

    /// The first part of [`Accumulator::run`]: lists all additions, where they are many. It reads
    /// no point.
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
        let (held, count) = (held(shape, buckets)?, shape.buckets);
        if Cutting::of(shape, &self.limits).is_some() {
            return Ok(());
        }
        let layout = self.layout(shape);
        let kernels = self.kernels(&layout);
        let Room { header, totals, rows, list, number, .. } = Room::new(shape, &layout, workspace)?;
        let Layout { level_count: levels, tiles, width, .. } = layout;
        kernels.count.launch(stream, tiles, (totals, starts, count, held, levels))?;
        let least = shape.balance.level_min.max(1);
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

    fn layout(&self, shape: &Shape) -> Layout {
        Layout::of(shape, &self.limits)
    }
}

impl Sums {
    /// All additions that `list` names.
    fn add(
        &self,
        stream: &Stream,
        shape: &Shape,
        layout: &Layout,
        room: &Room<'_>,
    ) -> Result<(), Fault> {
        let &Room { header, list, scratch, heads, tails, states, sums, number, .. } = room;
        // A layout has no levels if there is no tree.
        if let Some(tree) = &self.tree {
            for level in 1..=layout.level_count {
                let kernel = if level == 1 { &tree.first } else { &tree.level };
                let given = (sums, scratch, header, list, number, level, layout.chain);
                kernel.launch(stream, tree.batch.blocks, given)?;
            }
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
