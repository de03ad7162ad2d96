//! The sizes of the self-test, and the kernels that it reaches.

use std::collections::BTreeSet;

use ark_ff::FftField;

use crate::{
    curve::{Fr, Group, NttPlan},
    device::DeviceLimits,
    engines::cuda::ntt::group_rows,
    msm::{
        BaseMemory, MsmBudget, MsmPassPlan, MsmSize, ResidentPlan, SplitThresholds,
        tables::scratch_bytes,
    },
    ntt::{NttLimits, choose_passes, kernel_names, table_bytes_max},
};

/// The sizes of a self-test's jobs.
#[derive(Debug, Clone, Copy)]
pub struct SelfTestSizes {
    /// All MSMs of the self-test run over each.
    pub points: &'static [SelfTestBases],
    /// Batches of NTTs.
    pub batches: &'static [NttBatch],
    /// NTTs over a 31-bit prime.
    pub words: &'static [WordTransform],
    /// Products of integers.
    pub integers: &'static [SelfTestFactors],
    /// Eliminations over GF(2).
    pub eliminations: &'static [SelfTestElimination],
    /// Device memory for each job that runs at the same time as others.
    pub job_bytes: u64,
}

/// Twice what the largest job takes: MSMs over 2^15 points with tables for sliding windows.
const JOB_BYTES: u64 = 2 << 30;

/// Bases of the self-test's MSMs.
#[derive(Debug, Clone, Copy)]
pub struct SelfTestBases {
    /// The curve group.
    pub group: Group,
    /// The number of points.
    pub count: usize,
}

/// Rows of one length that the self-test transforms.
#[derive(Debug, Clone, Copy)]
pub struct NttBatch {
    /// log2 of a row's length.
    pub lg_n: u32,
    /// The number of rows.
    pub rows: usize,
    /// Whether the passes are planned for a batch that fills the device.
    pub planned_full: bool,
}

/// A transform over a 31-bit prime.
#[derive(Debug, Clone, Copy)]
pub struct WordTransform {
    /// log2 of its length.
    pub lg_n: u32,
    /// Whether the passes are planned for a batch that fills the device.
    pub planned_full: bool,
}

/// Integers that the self-test multiplies.
#[derive(Debug, Clone, Copy)]
pub struct SelfTestFactors {
    /// The number of products.
    pub rows: usize,
    /// Limbs of each first factor.
    pub a: usize,
    /// Limbs of each second factor.
    pub b: usize,
}

/// Matrices of bits that the self-test eliminates.
#[derive(Debug, Clone, Copy)]
pub struct SelfTestElimination {
    /// Rows of the matrix.
    pub rows: usize,
    /// Columns of the matrix and of the pivots.
    pub columns: usize,
    /// Pivot rows of the reduction.
    pub pivots: usize,
}

const fn bases(group: Group, count: usize) -> SelfTestBases {
    SelfTestBases { group, count }
}

const fn rows(lg_n: u32, rows: usize) -> NttBatch {
    NttBatch { lg_n, rows, planned_full: false }
}

/// One row, with passes for a batch that fills the device.
const fn full(lg_n: u32) -> NttBatch {
    NttBatch { lg_n, rows: 1, planned_full: true }
}

const fn word(lg_n: u32) -> WordTransform {
    WordTransform { lg_n, planned_full: false }
}

const fn full_word(lg_n: u32) -> WordTransform {
    WordTransform { lg_n, planned_full: true }
}

const fn factors(rows: usize, a: usize, b: usize) -> SelfTestFactors {
    SelfTestFactors { rows, a, b }
}

const fn elimination(rows: usize, columns: usize, pivots: usize) -> SelfTestElimination {
    SelfTestElimination { rows, columns, pivots }
}

/// The self-test of a GPU. Of each kind, the jobs that take longest come first.
pub const ON_A_GPU: SelfTestSizes = SelfTestSizes {
    points: &[
        bases(Group::G1, 1 << 15),
        bases(Group::G2, 1 << 14),
        bases(Group::G1, 1 << 9),
        bases(Group::G2, 1 << 9),
    ],
    batches: &[
        rows(18, 1),
        rows(16, 1),
        full(16),
        full(14),
        rows(13, 1),
        rows(10, 8),
        full(12),
        full(11),
        rows(10, 1),
        rows(7, 1),
        rows(6, 1),
    ],
    words: &[
        full_word(18),
        full_word(17),
        full_word(16),
        word(16),
        full_word(15),
        full_word(14),
        word(14),
        word(13),
        word(12),
        word(11),
        word(10),
        word(9),
        word(8),
        word(6),
    ],
    // More than 1024 tiles of limbs, several of them, three quarters of a transform, and one.
    integers: &[
        factors(1, 1 << 20, (1 << 20) + (1 << 12)),
        factors(2, 3000, 2001),
        factors(1, 300, 300),
        factors(3, 101, 60),
    ],
    eliminations: &[elimination(300, 700, 256)],
    job_bytes: JOB_BYTES,
};

/// The self-test of the emulated driver, which takes a second for a GPU's millisecond.
pub const EMULATED: SelfTestSizes = SelfTestSizes {
    points: &[bases(Group::G1, 40), bases(Group::G2, 20)],
    batches: &[rows(6, 1), rows(7, 1), rows(10, 1), rows(10, 5), rows(11, 1), full(11), full(12)],
    words: &[word(6), word(10), word(14)],
    integers: &[factors(2, 41, 30), factors(1, 1050, 1000)],
    eliminations: &[elimination(20, 300, 15)],
    job_bytes: JOB_BYTES,
};

#[derive(Debug, Clone, Copy)]
pub(super) struct MsmTrial {
    pub how: &'static str,
    pub thresholds: SplitThresholds,
    pub vectors: usize,
    /// The number of pieces in which the scalars are received.
    pub pieces: usize,
    /// Whether all scalars are equal, so that few buckets get most digits.
    pub equal_scalars: bool,
    /// Whether its bases are uploaded again, so that they have no tables.
    pub new_bases: bool,
}

const USUAL: SplitThresholds = SplitThresholds::USUAL;
/// The tree, down to levels of few additions. Whole buckets are never summed.
const TREE: SplitThresholds =
    SplitThresholds { whole_bucket_digits_max: 0, level_additions_min: Some(8), ..USUAL };
/// Levels of the tree with many additions only; of 2^15 points, teams add the rest.
const LEVELS: SplitThresholds = SplitThresholds { level_additions_min: Some(1 << 16), ..TREE };
/// Load-balanced accumulation only.
const SHARES: SplitThresholds = SplitThresholds { level_additions_min: Some(u32::MAX), ..TREE };
/// Passes start before all scalars are received, and add to the buckets of previous passes.
const STREAMED: SplitThresholds = SplitThresholds { streamed_scalars_min: 1, ..SHARES };

const fn step(how: &'static str, thresholds: SplitThresholds) -> MsmTrial {
    MsmTrial { how, thresholds, vectors: 1, pieces: 1, equal_scalars: false, new_bases: false }
}

/// The MSMs over each number of points. Bases get tables on their second use, and tables for
/// sliding windows on their eighth.
pub(super) const MSM_TRIALS: [MsmTrial; 12] = [
    MsmTrial { pieces: 2, new_bases: true, ..step("as scalars arrive", STREAMED) },
    MsmTrial { new_bases: true, ..step("without tables", USUAL) },
    step("with tables", USUAL),
    step("by a tree", TREE),
    step("by levels", LEVELS),
    step("by equal shares", SHARES),
    MsmTrial { pieces: 2, ..step("as scalars arrive, with tables", STREAMED) },
    MsmTrial { vectors: 2, ..step("of two vectors", USUAL) },
    step("with sliding windows", USUAL),
    step("with sliding windows, by a tree", TREE),
    step("with sliding windows, by equal shares", SHARES),
    MsmTrial { equal_scalars: true, ..step("of equal scalars", USUAL) },
];

/// The transforms of each batch: every order, both directions, with and without a coset.
pub(super) fn transforms(lg_n: u32) -> impl Iterator<Item = NttPlan> {
    let coset = Some(Fr::GENERATOR);
    let all = [
        (false, None, false, true),
        (true, None, true, false),
        (false, coset, false, false),
        (true, coset, false, false),
        (true, coset, true, false),
        (false, coset, true, true),
    ];
    all.into_iter().map(move |(inverse, coset, input_reversed, output_reversed)| NttPlan {
        lg_n,
        inverse,
        coset,
        input_reversed,
        output_reversed,
    })
}

impl NttBatch {
    pub(super) fn planned_rows(&self) -> usize {
        group_rows(self.lg_n, if self.planned_full { usize::MAX } else { self.rows })
    }
}

impl SelfTestSizes {
    /// No job.
    pub const NONE: Self = Self {
        points: &[],
        batches: &[],
        words: &[],
        integers: &[],
        eliminations: &[],
        job_bytes: JOB_BYTES,
    };

    /// The names of the kernels that these MSMs and NTTs over Fr reach on a device with these
    /// limits and an arena of that size, as their plans give them.
    pub fn kernels(&self, limits: DeviceLimits, arena_bytes: u64) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for bases in self.points {
            names.extend(msm_kernels(bases, limits, arena_bytes));
        }
        let tables_max = table_bytes_max(arena_bytes);
        let ntt_limits = NttLimits::of(&limits);
        for batch in self.batches {
            for transform in transforms(batch.lg_n) {
                let planned_rows = batch.planned_rows();
                let passes = choose_passes(&transform, planned_rows, tables_max, &ntt_limits);
                names.extend(kernel_names(&transform, &passes));
            }
        }
        names
    }
}

fn msm_kernels(bases: &SelfTestBases, limits: DeviceLimits, arena_bytes: u64) -> BTreeSet<String> {
    let (group, n) = (bases.group, bases.count as u32);
    let scratch = scratch_bytes(group, n, &limits);
    let memory = BaseMemory { total: arena_bytes, free: arena_bytes, table_scratch: scratch };
    let stages = ResidentPlan::stages(group, n, limits, memory);
    let mut names = BTreeSet::new();
    let mut uses = 0;
    for MsmTrial { thresholds, vectors, new_bases, .. } in MSM_TRIALS {
        uses = if new_bases { 1 } else { uses + 1 };
        let Some(stage) = stages.iter().rfind(|stage| stage.uses <= uses) else { continue };
        let tables = Some(stage.plan.windows()).filter(|windows| windows.tables() > 1);
        let job = MsmSize { group, n, vectors: vectors as u32 };
        let budget = MsmBudget { bytes: arena_bytes.saturating_sub(stage.table_bytes), limits };
        let windows = job.choose_windows_for_tables(tables, &limits);
        let Some(mut plan) = MsmPassPlan::with_thresholds(job, windows, budget, thresholds) else {
            continue;
        };
        plan.enable_streaming();
        names.extend(plan.kernels());
    }
    names
}
