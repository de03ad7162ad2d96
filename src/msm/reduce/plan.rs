//! Which launches take how many buckets to how few points. Pure: numbers in, numbers out.

use crate::{curve::Group, device::Context};

/// Groups of four lanes in a block: `SUM_GROUPS` of `kernels/msm/reduce/split_sum.cuh`.
pub(super) const SUM_GROUPS: u32 = 32;
/// Terms from which on a GPU is full without cutting them into parts.
const TERMS_FULL: u32 = 256;
/// Sets this small have terms at once, without rows.
const LG_BUCKETS_SMALL: u32 = 5;
/// A thread's slice has 2^LG_SLICE_MIN points at least.
const LG_SLICE_MIN: u32 = 2;
/// Sums that share an inversion, at most.
const CHAIN_MAX: u32 = 128;

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
    /// log2 of the buckets of a set.
    pub lg_buckets: u32,
}

impl Shape {
    /// Sets of a vector.
    pub fn sets(&self) -> u32 {
        self.shifts.len() as u32
    }

    /// Bytes of the buckets of all vectors.
    pub fn bucket_bytes(&self) -> u64 {
        (u64::from(self.arrays()) << self.lg_buckets) * self.group.affine_bytes() as u64
    }

    fn arrays(&self) -> u32 {
        self.vectors * self.sets()
    }

    fn terms(&self) -> u32 {
        self.lg_buckets + 1
    }

    /// How set follows set, where the kernels can count it: widths that differ by one at most.
    fn ladder(&self) -> Option<Ladder> {
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
    pub units: u32,
    /// Folds of fewer sums are not worth their inversions.
    pub fold_sums_min: u64,
    /// Fewer points are summed by split lanes from the start.
    pub slice_points_min: u64,
    /// Terms of more than 2^lg_part points are cut into parts of so many.
    pub lg_part: u32,
    /// Where the device stops; by a model of the time where nothing is said.
    pub ending: Option<Ending>,
}

impl Tuning {
    /// For points of `group` on this device.
    ///
    /// The limits are by counts (one H200's rates in benches/RESULTS.md): a fold of s sums takes
    /// s / 4.47 G/s and an inversion, worth five sums, for s / (units x 512) of them, and spares as
    /// many sums in XYZZ at 2.99 G/s. In G2 an inversion is worth two sums, of 256 lanes. A part of
    /// 2^7 points takes a block 3 + 5 additions in a row, the 2^10 of 2^21 buckets 31 + 5.
    pub fn of(context: &Context, group: Group) -> Self {
        Self::on(context.identity().units, group)
    }

    /// The same for a number of multiprocessors.
    pub fn on(units: u32, group: Group) -> Self {
        let lanes = u64::from(units) * u64::from(Fold::threads(group));
        let least = match group {
            Group::G1 => 15,
            Group::G2 => 8,
        };
        let slices = u64::from(units) * 256;
        Self {
            units,
            fold_sums_min: lanes * least,
            slice_points_min: slices,
            lg_part: 7,
            ending: None,
        }
    }

    /// Threads that fill the device with slices, rounded down to a power of two.
    fn lg_slice_threads(&self) -> u32 {
        (u64::from(self.units) * 256).ilog2()
    }

    /// Groups of lanes for each of `sums` of `count` points: two warps a scheduler if there is work
    /// for them, and no group that has less than two points.
    fn team(&self, sums: u64, count: u32) -> u32 {
        let wanted = (u64::from(self.units) * 64 / sums.max(1)).clamp(1, SUM_GROUPS.into());
        let most = count.next_power_of_two() / 2;
        (1 << wanted.ilog2()).min(most.max(1))
    }
}

/// Rows and columns before a launch, and by how many bits it shortens them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Halves {
    pub(super) arrays: u32,
    pub(super) lg_rows: u32,
    pub(super) row_bits: u32,
    pub(super) lg_columns: u32,
    pub(super) column_bits: u32,
    /// Points before the first column.
    pub(super) columns_at: u32,
}

impl Halves {
    fn row_sums(&self) -> u64 {
        u64::from(self.arrays) << (self.lg_rows - self.row_bits)
    }

    pub(super) fn sums(&self) -> u64 {
        self.row_sums() + (u64::from(self.arrays) << (self.lg_columns - self.column_bits))
    }

    fn points(&self) -> u64 {
        (u64::from(self.arrays) << self.lg_rows) + (u64::from(self.arrays) << self.lg_columns)
    }

    /// What is there after the launch.
    fn after(&self) -> Self {
        Self {
            lg_rows: self.lg_rows - self.row_bits,
            row_bits: 0,
            lg_columns: self.lg_columns - self.column_bits,
            column_bits: 0,
            columns_at: self.row_sums() as u32,
            ..*self
        }
    }
}

/// How often each point of a period is doubled: see `kernels/msm/reduce/terms.cuh`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ladder {
    pub(super) period: u32,
    pub(super) width: u32,
    pub(super) narrow: u64,
}

impl Ladder {
    /// No point is doubled.
    const FLAT: Self = Self { period: 1, width: 0, narrow: 0 };

    /// The terms of a set: the first two count alike, each next one twice.
    fn terms(shape: &Shape) -> Self {
        Self { period: shape.terms(), width: 1, narrow: 1 }
    }
}

/// A fold's launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fold {
    pub(super) halves: Halves,
    /// Sums that share an inversion.
    pub(super) chain: u32,
}

impl Fold {
    pub(super) const fn threads(group: Group) -> u32 {
        match group {
            Group::G1 => 512,
            Group::G2 => 256,
        }
    }

    fn scratch_bytes(&self, group: Group, units: u32) -> u64 {
        let lanes = u64::from(units * Self::threads(group));
        lanes * u64::from(self.chain) * group.coordinate_bytes() as u64
    }
}

/// One launch: see `kernels/msm/reduce.cu`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // named as the kernels' parameters are
pub enum Step {
    Fold(Fold),
    Slices(Halves),
    Sums { halves: Halves, affine: bool, team: u32 },
    Terms { halves: Halves, affine: bool, lg_parts: u32, team: u32 },
    Collect { sums: u32, count: u32, team: u32, ladder: Ladder },
}

impl Step {
    /// Points that it writes.
    pub(super) fn points_out(&self) -> u64 {
        match self {
            Self::Fold(Fold { halves, .. }) | Self::Slices(halves) | Self::Sums { halves, .. } => {
                halves.sums()
            }
            Self::Terms { halves, lg_parts, .. } => {
                let terms = u64::from(halves.lg_rows + halves.lg_columns + 1);
                (u64::from(halves.arrays) * terms) << lg_parts
            }
            Self::Collect { sums, .. } => u64::from(*sums),
        }
    }

    pub(super) fn bytes_out(&self, group: Group) -> u64 {
        let coordinates = if matches!(self, Self::Fold { .. }) { 2 } else { 4 };
        self.points_out() * coordinates * group.coordinate_bytes() as u64
    }
}

/// The launches for a shape, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// What it is for.
    pub shape: Shape,
    /// Where the device stops.
    pub ending: Ending,
    /// What it launches.
    pub steps: Vec<Step>,
    /// The steps' results lie in two areas in turn, the last one in the caller's.
    pub(super) areas: [u64; 2],
    pub(super) scratch_bytes: u64,
    pub(super) units: u32,
}

impl Plan {
    /// The plan for `shape`.
    pub fn new(shape: &Shape, tuning: &Tuning) -> Self {
        let ending = super::ending::choose(shape, tuning, shape.ladder().is_some());
        let mut steps = halves(shape, tuning);
        terms(shape, tuning, ending, &mut steps);
        let mut areas = [0; 2];
        for (at, step) in steps.iter().enumerate().take(steps.len() - 1) {
            let bytes = step.bytes_out(shape.group).next_multiple_of(crate::device::ALIGN);
            areas[at % 2] = bytes.max(areas[at % 2]);
        }
        let scratch = |step: &Step| match step {
            Step::Fold(fold) => fold.scratch_bytes(shape.group, tuning.units),
            _ => 0,
        };
        let scratch_bytes = steps.iter().map(scratch).max().unwrap_or(0);
        let units = tuning.units;
        Self { shape: shape.clone(), ending, steps, areas, scratch_bytes, units }
    }

    /// Bytes of workspace.
    pub fn workspace_bytes(&self) -> u64 {
        self.areas[0] + self.areas[1] + self.scratch_bytes
    }

    /// Points that the device leaves, in XYZZ.
    pub fn points_out(&self) -> u64 {
        self.steps.last().map_or(0, Step::points_out)
    }

    /// Bytes of these: what [`super::Reducer::run`] writes and [`super::finish`] takes.
    pub fn bytes_out(&self) -> u64 {
        self.steps.last().map_or(0, |step| step.bytes_out(self.shape.group))
    }
}

/// From buckets to the sums of rows and columns.
fn halves(shape: &Shape, tuning: &Tuning) -> Vec<Step> {
    let m = shape.lg_buckets;
    let mut steps = Vec::new();
    if m <= LG_BUCKETS_SMALL {
        return steps;
    }
    let (lg_columns, lg_rows) = (m / 2, m - m / 2);
    let arrays = shape.arrays();
    let start =
        Halves { arrays, lg_rows: m, row_bits: 0, lg_columns: m, column_bits: 0, columns_at: 0 };
    let mut now = start;
    let most = |now: &Halves, bits: u32| Halves {
        row_bits: bits.min(now.lg_rows - lg_rows),
        column_bits: bits.min(now.lg_columns - lg_columns),
        ..*now
    };
    loop {
        let halves = most(&now, 1);
        let both = halves.row_bits == 1 && halves.column_bits == 1;
        if !both || halves.sums() < tuning.fold_sums_min {
            break;
        }
        let warps = u64::from(tuning.units * Fold::threads(shape.group) / 32);
        let rows = halves.sums().div_ceil(32).div_ceil(warps);
        let chain = rows.min(CHAIN_MAX.into()) as u32;
        steps.push(Step::Fold(Fold { halves, chain }));
        now = halves.after();
    }
    let left = |now: &Halves| now.lg_rows > lg_rows || now.lg_columns > lg_columns;
    let mut affine = true;
    if left(&now) && now.points() >= tuning.slice_points_min {
        let bits = now.points().ilog2().saturating_sub(tuning.lg_slice_threads());
        let halves = most(&now, bits.max(LG_SLICE_MIN));
        steps.push(Step::Slices(halves));
        now = halves.after();
        affine = false;
    }
    if left(&now) {
        let halves = most(&now, u32::BITS);
        let team = tuning.team(halves.sums(), 1 << halves.row_bits.max(halves.column_bits));
        steps.push(Step::Sums { halves, affine, team });
    }
    steps
}

/// From there to where the device stops.
fn terms(shape: &Shape, tuning: &Tuning, ending: Ending, steps: &mut Vec<Step>) {
    let m = shape.lg_buckets;
    let halves = match steps.last() {
        Some(
            Step::Fold(Fold { halves, .. }) | Step::Slices(halves) | Step::Sums { halves, .. },
        ) => halves.after(),
        _ => Halves {
            arrays: shape.arrays(),
            lg_rows: 0,
            row_bits: 0,
            lg_columns: m,
            column_bits: 0,
            columns_at: 0,
        },
    };
    let affine = matches!(steps.last(), None | Some(Step::Fold { .. }));
    let sums = shape.arrays() * shape.terms();
    let lg_most = (halves.lg_rows.max(1) - 1).max(halves.lg_columns); // term 0 has all columns
    let lg_parts = if sums < TERMS_FULL { lg_most.saturating_sub(tuning.lg_part) } else { 0 };
    let team = tuning.team(u64::from(sums) << lg_parts, 1 << (lg_most - lg_parts));
    steps.push(Step::Terms { halves, affine, lg_parts, team });
    let collect = |sums: u32, count: u32, ladder| {
        let team = tuning.team(sums.into(), count);
        Step::Collect { sums, count, team, ladder }
    };
    let doubled = ending != Ending::Terms;
    let ladder = if doubled { Ladder::terms(shape) } else { Ladder::FLAT };
    if doubled || lg_parts > 0 {
        steps.push(collect(sums, 1 << lg_parts, ladder));
    }
    if doubled {
        let over_sets = shape.ladder().filter(|_| ending == Ending::Vectors);
        let ladder = over_sets.unwrap_or(Ladder::FLAT);
        steps.push(collect(shape.arrays(), shape.terms(), ladder));
    }
    if ending == Ending::Vectors && shape.sets() > 1 {
        steps.push(collect(shape.vectors, shape.sets(), Ladder::FLAT));
    }
}
