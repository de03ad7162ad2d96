//! For few references: teams of lanes sum whole buckets (`kernels/msm/bucket_teams.cu`).

use super::{
    kernels::{KERNEL, TEAM_BLOCK_THREADS},
    shape::AccumulateShape,
};
use crate::{
    curve::Group,
    device::{
        BlockShape, DeviceContext, DeviceFault, DeviceLimits, DevicePtr, DeviceSlice,
        GpuUnavailable, Kernel, KernelModule, Stream,
    },
    msm::{
        launch::{PerGroup, kernel_fault, region},
        references::{AlignedPoints, SortedReferences},
    },
};

/// The product of cells and a piece's references must fit 32 bits.
const DIGITS_MAX: u32 = 1 << 22;
/// Groups of four lanes per block, and cells that a block joins.
const GROUPS: u32 = 32;
/// Bytes of the kernels' `struct FirstPiece`.
const MARK_BYTES: u64 = 8;
/// A bucket is large from mean + `LARGE_DEVIATIONS` sqrt(mean) references on, and from `LARGE_MIN`.
/// Top digits are not uniform: with 4 deviations, uniform scalars have large buckets, too, and 2^10
/// scalars take a quarter longer (`benches/experiments/msm.md`).
const LARGE_DEVIATIONS: u32 = 8;
const LARGE_MIN: u32 = 32;
/// The largest bucket that is not large, whatever the mean: 16 references for each of a team's 32
/// groups.
const LARGE_MAX: u32 = 512;
/// The fewest references of a piece per group of lanes: with 6, 2^10 equal scalars take a fifth
/// longer (`benches/experiments/msm.md`).
const GROUP_REFERENCES_MIN: u32 = 4;

/// Parameters: out, parts, references, starts, buckets, parts_index, team, large_min,
/// cell_references, references_per_group, cells.
#[rustfmt::skip]
type WholeSumsKernel = Kernel<(
    DevicePtr<u8>, DevicePtr<u8>, DevicePtr<u32>, DevicePtr<u32>, u32, u32, u32, u32, u32, u32,
    u32,
)>;
/// Parameters: out, parts, cells, blocks.
type WholeJoinKernel = Kernel<(DevicePtr<u8>, DevicePtr<u8>, u32, u32)>;

pub struct WholeBucketKernels(PerGroup<BucketTeamKernels>);

struct BucketTeamKernels {
    sums: WholeSumsKernel,
    join: WholeJoinKernel,
}

/// How large buckets are split: see `kernels/msm/bucket_teams.cuh`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WholeBucketPlan {
    /// Groups of four lanes for each bucket that is not large.
    team: u32,
    large_min: u32,
    cell_references: u32,
    /// References of a piece per group of a block.
    references_per_group: u32,
    cells: u32,
    /// Blocks that join buckets of several pieces.
    join_blocks: u32,
}

impl WholeBucketPlan {
    /// For few references whose sums stay in XYZZ; `None` if there are too many.
    pub fn of(shape: &AccumulateShape, limits: &DeviceLimits) -> Option<Self> {
        let few = 1..=shape.balance.whole_bucket_references_max.min(DIGITS_MAX);
        if !shape.xyzz || shape.accumulate || !few.contains(&shape.references_max) {
            return None;
        }
        // Resident blocks per multiprocessor, as the kernels are compiled.
        let resident = limits.multiprocessors * PerGroup { g1: 3, g2: 2 }.of(shape.group);
        let mean = shape.references_max / shape.buckets;
        let large_min = (mean + LARGE_DEVIATIONS * mean.isqrt()).clamp(LARGE_MIN, LARGE_MAX);
        let references_per_group =
            shape.references_max.div_ceil(resident * GROUPS).max(GROUP_REFERENCES_MIN);
        let cell_references = large_min.min(GROUPS / 2 * references_per_group);
        let cells = shape.references_max / cell_references;
        let join_blocks = cells.min(resident).max(cells.div_ceil(GROUPS));
        let team = shape.team_size(shape.references_max.into(), limits);
        Some(Self { team, large_min, cell_references, references_per_group, cells, join_blocks })
    }

    /// Bytes of workspace: a sum and a mark per cell, and one point more, so that the first sum can
    /// start at a reference's index.
    pub fn bytes(&self, group: Group) -> u64 {
        let point = group.affine_bytes() as u64;
        u64::from(self.cells) * (2 * point + MARK_BYTES) + 2 * point
    }
}

impl WholeBucketKernels {
    pub fn load(context: &DeviceContext) -> Result<Self, GpuUnavailable> {
        let module = KernelModule::load(context, "msm/bucket_teams")?;
        let failed = |fault| GpuUnavailable::Device { index: context.identity().index, fault };
        let block = BlockShape::threads(TEAM_BLOCK_THREADS);
        let kernels = PerGroup::load(|group| {
            let name = |stage: &str| format!("{}_bucket_team_{stage}", group.name());
            let sums: WholeSumsKernel = module.kernel(&name("sums"), block)?;
            let join: WholeJoinKernel = module.kernel(&name("join"), block)?;
            Ok(BucketTeamKernels { sums: sums.with_pdl(), join: join.with_pdl() })
        });
        kernels.map(Self).map_err(failed)
    }

    /// Sets `buckets[b]` to the sum of the bucket's points: see [`super::Accumulator::run`].
    pub fn run(
        &self,
        stream: &Stream,
        shape: &AccumulateShape,
        plan: &WholeBucketPlan,
        SortedReferences { references, starts }: SortedReferences<'_>,
        buckets: DeviceSlice<'_, u8>,
        workspace: DeviceSlice<'_, u8>,
    ) -> Result<(), DeviceFault> {
        let AlignedPoints { span: parts, first } = region(workspace, 0..plan.bytes(shape.group))
            .and_then(|parts| AlignedPoints::of(parts, shape.group))
            .ok_or_else(short)?;
        let &WholeBucketPlan { team, large_min, cells, join_blocks, .. } = plan;
        let (cell_references, per_group) = (plan.cell_references, plan.references_per_group);
        let count = shape.buckets;
        #[rustfmt::skip]
        let given = (
            buckets, parts, references, starts, count, first, team, large_min,
            cell_references, per_group, cells,
        );
        let BucketTeamKernels { sums, join } = self.0.get(shape.group);
        let team_blocks = (u64::from(count) * u64::from(team)).div_ceil(GROUPS.into()) as u32;
        sums.launch(stream, team_blocks + cells, given)?;
        // Without cells no bucket has pieces, and this launches no blocks.
        join.launch(stream, join_blocks, (buckets, parts, cells, join_blocks))
    }
}

pub fn short() -> DeviceFault {
    kernel_fault(KERNEL, "the workspace is too short or too far for references")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msm::accumulate::shape::tests::shape;

    fn plan(digits: u32, buckets: u32, multiprocessors: u32) -> Option<WholeBucketPlan> {
        let mut shape = AccumulateShape { buckets, xyzz: true, ..shape(digits, 1) };
        shape.balance.whole_bucket_references_max = 1 << 17;
        WholeBucketPlan::of(&shape, &DeviceLimits { multiprocessors, ..DeviceLimits::H200 })
    }

    #[test]
    fn every_large_bucket_has_cells_for_its_pieces() {
        for digits in [1, 31, 32, 1000, 26 << 10, 78 << 10, 1 << 17] {
            for (buckets, processors) in [(1, 132), (256, 132), (1 << 11, 132), (1 << 17, 4)] {
                let found = plan(digits, buckets, processors).unwrap();
                let piece = GROUPS * found.references_per_group;
                let WholeBucketPlan { large_min, cell_references, cells, join_blocks, .. } = found;
                assert!(cell_references <= large_min && 2 * cell_references <= piece, "{found:?}");
                assert_eq!(cells, digits / cell_references, "{found:?}");
                assert!(join_blocks * GROUPS >= cells && join_blocks <= cells, "{found:?}");
                for size in (large_min..digits.min(large_min + 3 * piece)).chain([digits]) {
                    let fits = size.div_ceil(piece) <= size / cell_references;
                    assert!(size < large_min || fits, "{size} {found:?}");
                }
            }
        }
    }

    #[test]
    fn sums_whole_buckets_for_few_references_only() {
        assert_eq!(plan(0, 5, 132), None);
        assert_eq!(plan((1 << 17) + 1, 5, 132), None);
        let found = plan(26 << 10, 256, 132).unwrap();
        assert_eq!(
            (found.team, found.large_min, found.references_per_group, found.cell_references),
            (32, 184, 4, 64)
        );
    }
}
