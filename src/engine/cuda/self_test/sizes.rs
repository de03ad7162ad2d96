//! What the self-test computes, as numbers, and which kernels that reaches.

use std::collections::BTreeSet;

use ark_ff::FftField;

use crate::{
    curve::{Fr, Group},
    device::DeviceLimits,
    engine::cuda::ntt::group_rows,
    msm::{Cuts, Job, Kept, Memory, Plan, Room, tables::scratch_bytes},
    ntt::{Transform, TransformLimits, chosen, kernel_names, table_bytes_max},
};

/// The sizes of a self-test's jobs.
#[derive(Debug, Clone, Copy)]
pub struct SelfTestSizes {
    /// Groups and numbers of points: there is an MSM of each kind over each.
    pub points: &'static [(Group, usize)],
    /// Batches of NTTs.
    pub batches: &'static [NttBatch],
}

/// Rows of one length that the self-test transforms.
#[derive(Debug, Clone, Copy)]
pub struct NttBatch {
    /// log2 of a row's length.
    pub lg_n: u32,
    /// Rows.
    pub rows: usize,
    /// Whether the passes are those of a batch that fills the device.
    pub planned_full: bool,
}

const fn rows(lg_n: u32, rows: usize) -> NttBatch {
    NttBatch { lg_n, rows, planned_full: false }
}

/// One row, in the passes of a batch that fills the device.
const fn full(lg_n: u32) -> NttBatch {
    NttBatch { lg_n, rows: 1, planned_full: true }
}

/// The self-test of a GPU.
pub const ON_A_GPU: SelfTestSizes = SelfTestSizes {
    points: &[(Group::G1, 1 << 15), (Group::G2, 1 << 14), (Group::G1, 1 << 9), (Group::G2, 1 << 9)],
    batches: &[
        rows(6, 1),
        rows(7, 1),
        rows(10, 1),
        rows(10, 8),
        rows(13, 1),
        rows(16, 1),
        rows(18, 1),
        full(11),
        full(12),
        full(14),
        full(16),
    ],
};

/// The self-test of the emulated driver, which takes a second for a GPU's millisecond.
pub const EMULATED: SelfTestSizes = SelfTestSizes {
    points: &[(Group::G1, 40), (Group::G2, 20)],
    batches: &[rows(6, 1), rows(7, 1), rows(10, 1), rows(10, 5), rows(11, 1), full(11), full(12)],
};

/// One MSM of the self-test.
#[derive(Debug, Clone, Copy)]
pub(super) struct MsmStep {
    pub how: &'static str,
    pub cuts: Cuts,
    pub vectors: usize,
    /// Pieces in which the scalars arrive.
    pub pieces: usize,
    /// Whether all scalars are the same, so that some buckets get most digits.
    pub equal_scalars: bool,
    /// Whether its bases are brought to the device anew, so that they have no tables.
    pub new_bases: bool,
}

const USUAL: Cuts = Cuts::USUAL;
/// Levels of the tree down to a few additions. No bucket is summed whole.
const TREE: Cuts = Cuts { whole_digits: 0, level_min: Some(8), ..USUAL };
/// Levels of the tree as long as they have many additions; teams add what 2^15 points leave.
const LEVELS: Cuts = Cuts { level_min: Some(1 << 16), ..TREE };
/// Equal shares alone.
const SHARES: Cuts = Cuts { level_min: Some(u32::MAX), ..TREE };
/// Passes take scalars as they arrive, and add to each other's buckets.
const ARRIVING: Cuts = Cuts { arriving_min: 1, ..SHARES };

const fn step(how: &'static str, cuts: Cuts) -> MsmStep {
    MsmStep { how, cuts, vectors: 1, pieces: 1, equal_scalars: false, new_bases: false }
}

/// The MSMs over each number of points. Bases get tables at their second use, and tables for
/// sliding windows at their eighth.
pub(super) const MSM_STEPS: [MsmStep; 12] = [
    MsmStep { pieces: 2, new_bases: true, ..step("as scalars arrive", ARRIVING) },
    MsmStep { new_bases: true, ..step("without tables", USUAL) },
    step("with tables", USUAL),
    step("by a tree", TREE),
    step("by levels", LEVELS),
    step("by equal shares", SHARES),
    MsmStep { pieces: 2, ..step("as scalars arrive, with tables", ARRIVING) },
    MsmStep { vectors: 2, ..step("of two vectors", USUAL) },
    step("with sliding windows", USUAL),
    step("with sliding windows, by a tree", TREE),
    step("with sliding windows, by equal shares", SHARES),
    MsmStep { equal_scalars: true, ..step("of equal scalars", USUAL) },
];

/// The transforms of each batch: every order, both directions, with and without a coset.
pub(super) fn transforms(lg_n: u32) -> impl Iterator<Item = Transform> {
    let coset = Some(Fr::GENERATOR);
    let all = [
        (false, None, false, true),
        (true, None, true, false),
        (false, coset, false, false),
        (true, coset, false, false),
        (true, coset, true, false),
        (false, coset, true, true),
    ];
    all.into_iter().map(move |(inverse, coset, input_reversed, output_reversed)| Transform {
        lg_n,
        inverse,
        coset,
        input_reversed,
        output_reversed,
    })
}

impl NttBatch {
    /// For how many rows its passes are planned.
    pub(super) fn planned_rows(&self) -> usize {
        group_rows(self.lg_n, if self.planned_full { usize::MAX } else { self.rows })
    }
}

impl SelfTestSizes {
    /// The names of the kernels that these jobs reach on a device of these limits with an arena of
    /// that size, as [`Plan::kernels`] and [`kernel_names`] give them.
    pub fn kernels(&self, limits: DeviceLimits, arena_bytes: u64) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for (group, n) in self.points {
            names.extend(msm_kernels(*group, *n as u32, limits, arena_bytes));
        }
        let (room, transform_limits) = (table_bytes_max(arena_bytes), TransformLimits::of(&limits));
        for batch in self.batches {
            for transform in transforms(batch.lg_n) {
                let passes = chosen(&transform, batch.planned_rows(), room, &transform_limits);
                names.extend(kernel_names(&transform, &passes));
            }
        }
        names
    }
}

fn msm_kernels(group: Group, n: u32, limits: DeviceLimits, arena_bytes: u64) -> BTreeSet<String> {
    let scratch = scratch_bytes(group, n, &limits);
    let memory = Memory { all: arena_bytes, free: arena_bytes, scratch };
    let stages = Kept::stages(group, n, limits, memory);
    let (mut names, mut uses) = (BTreeSet::new(), 0);
    for MsmStep { cuts, vectors, new_bases, .. } in MSM_STEPS {
        uses = if new_bases { 1 } else { uses + 1 };
        let Some(stage) = stages.iter().rfind(|stage| stage.uses <= uses) else { continue };
        let tables = Some(stage.plan.windows()).filter(|windows| windows.tables() > 1);
        let job = Job { group, n, vectors: vectors as u32 };
        let room = Room { bytes: arena_bytes.saturating_sub(stage.bytes), limits };
        let Some(mut plan) = Plan::cut(job, job.windows_over(tables, &limits), room, cuts) else {
            continue;
        };
        plan.arrive();
        names.extend(plan.kernels());
    }
    names
}
