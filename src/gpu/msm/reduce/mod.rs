//! Bucket reduction: from buckets to one point per vector, with `kernels/msm/reduce.cu`.
//!
//! A [`ReducePlan`] lists the launches for a [`ReduceShape`], [`Reducer::run`] executes them, and
//! [`combine_on_host`] does the last doublings of a few points, at which the host is faster.

mod finish;
mod plan;
mod shape;
mod step;
mod takeover;

pub use finish::{DeviceCurve, LooseCoordinate, combine_on_host};
pub use plan::ReducePlan;
pub use shape::{BucketWeights, HostTakeover, ReduceShape, ReduceTuning};
pub use step::{BitTerms, BucketMatrix, PeriodicDoublings, ReduceStep};

use self::shape::SUM_GROUPS;
use super::launch::{PerGroup, SerialSumBlocks};
use crate::{
    curve::Group,
    device::{
        BlockShape, DeviceContext, DeviceFault, DevicePtr, DeviceSlice, GpuUnavailable, Kernel,
        KernelModule, Stream,
    },
};

/// Threads per block, as in `kernels/msm/reduce.cu`.
const SUM_THREADS: u32 = 128;

/// Parameters: out, points, set_count, buckets, lg_columns, row_parts, column_parts.
type SlicesKernel = Kernel<(DevicePtr<u8>, DevicePtr<u8>, u32, u32, u32, u32, u32)>;
/// Parameters: out, points, affine, set_count, buckets, lg_columns, row_parts, column_parts, team.
type SumsKernel = Kernel<(DevicePtr<u8>, DevicePtr<u8>, u32, u32, u32, u32, u32, u32, u32)>;
/// Parameters: out, points, affine, set_count, rows, columns, columns_at, lg_parts, team.
type TermsKernel = Kernel<(DevicePtr<u8>, DevicePtr<u8>, u32, u32, u32, u32, u32, u32, u32)>;
/// Parameters: out, points, sums, count, team, period, width, narrow.
type CombineKernel = Kernel<(DevicePtr<u8>, DevicePtr<u8>, u32, u32, u32, u32, u32, u64)>;

pub struct Reducer(PerGroup<ReduceKernels>);

struct ReduceKernels {
    slices: SlicesKernel,
    slice_threads: u32,
    /// For buckets in XYZZ; G1 only.
    slices_xyzz: Option<SlicesKernel>,
    sums: SumsKernel,
    terms: TermsKernel,
    combine: CombineKernel,
}

impl ReduceKernels {
    fn of(module: &KernelModule, group: Group) -> Result<Self, DeviceFault> {
        let name = |stage: &str| format!("{}_reduce_{stage}", group.name());
        let slices = SerialSumBlocks::of(group).block;
        let sums = BlockShape::threads(SUM_THREADS);
        let slices_xyzz =
            || module.kernel(&name("slices_xyzz"), BlockShape::threads(slices.threads));
        Ok(Self {
            slices: module.kernel(&name("slices"), slices)?,
            slice_threads: slices.threads,
            slices_xyzz: (group == Group::G1).then(slices_xyzz).transpose()?,
            sums: module.kernel(&name("sums"), sums)?,
            terms: module.kernel(&name("terms"), sums)?,
            combine: module.kernel(&name("combine"), sums)?,
        })
    }

    fn launch(
        &self,
        stream: &Stream,
        step: &ReduceStep,
        out: DeviceSlice<'_, u8>,
        points: DeviceSlice<'_, u8>,
    ) -> Result<(), DeviceFault> {
        let blocks =
            |sums: u64, team: u32| (sums * u64::from(team)).div_ceil(SUM_GROUPS.into()) as u32;
        match *step {
            ReduceStep::Slices { matrix, affine } => {
                let BucketMatrix { set_count, buckets, lg_columns, row_parts, column_parts } =
                    matrix;
                let grid = matrix.slices().div_ceil(self.slice_threads.into()) as u32;
                let given = (out, points, set_count, buckets, lg_columns, row_parts, column_parts);
                let xyzz = self.slices_xyzz.as_ref().filter(|_| !affine);
                xyzz.unwrap_or(&self.slices).launch(stream, grid, given)
            }
            ReduceStep::Sums { matrix, sliced, affine, team } => {
                let BucketMatrix { set_count, buckets, lg_columns, .. } = matrix;
                let (row_parts, column_parts) =
                    if sliced { (matrix.row_parts, matrix.column_parts) } else { (0, 0) };
                #[rustfmt::skip]
                let given = (
                    out, points, affine.into(), set_count, buckets, lg_columns, row_parts,
                    column_parts, team,
                );
                self.sums.launch(stream, blocks(matrix.sums(), team), given)
            }
            ReduceStep::Terms { terms, affine, team } => {
                let BitTerms { set_count, rows, columns, columns_at, lg_parts } = terms;
                #[rustfmt::skip]
                let given = (
                    out, points, affine.into(), set_count, rows, columns, columns_at, lg_parts,
                    team,
                );
                self.terms.launch(stream, blocks(step.points_out(), team), given)
            }
            ReduceStep::Combine { sums, count, team, doublings } => {
                let PeriodicDoublings { period, width, narrow_mask } = doublings;
                let given = (out, points, sums, count, team, period, width, narrow_mask);
                self.combine.launch(stream, blocks(sums.into(), team), given)
            }
        }
    }
}

impl Reducer {
    pub fn load(context: &DeviceContext) -> Result<Self, GpuUnavailable> {
        let index = context.identity().index;
        let module = KernelModule::load(context, "msm/reduce")?;
        let kernels = PerGroup::load(|group| ReduceKernels::of(&module, group));
        Ok(Self(kernels.map_err(|fault| GpuUnavailable::Device { index, fault })?))
    }

    /// Launches the plan: reduces `buckets` to points in XYZZ in `out`, for
    /// [`combine_on_host`].
    ///
    /// Shape: `buckets` has [`ReduceShape::bucket_bytes`], vector after vector, set after set;
    /// affine, x canonical, y below 2p, infinity as zeros; or XYZZ, below 2p, infinity with zz = 0.
    /// `out` has [`ReducePlan::output_bytes`] bytes, `workspace` [`ReducePlan::workspace_bytes`],
    /// with any contents. All begin at multiples of 16 bytes.
    pub fn run(
        &self,
        stream: &Stream,
        plan: &ReducePlan,
        buckets: DeviceSlice<'_, u8>,
        workspace: DeviceSlice<'_, u8>,
        out: DeviceSlice<'_, u8>,
    ) -> Result<(), DeviceFault> {
        let kernels = self.0.get(plan.shape.group);
        let mut points = region(buckets, 0, plan.shape.bucket_bytes())?;
        let out = region(out, 0, plan.output_bytes())?;
        let [even, odd] = plan.areas;
        let areas = [region(workspace, 0, even)?, region(workspace, even, odd)?];
        for (i, step) in plan.steps.iter().enumerate() {
            let to = if i + 1 == plan.steps.len() { out } else { areas[i % 2] };
            kernels.launch(stream, step, to, points)?;
            points = to;
        }
        Ok(())
    }
}

fn region(
    span: DeviceSlice<'_, u8>,
    start: u64,
    bytes: u64,
) -> Result<DeviceSlice<'_, u8>, DeviceFault> {
    let short = || DeviceFault::KernelMismatch {
        kernel: "reduce".to_owned(),
        problem: format!("a span has {} bytes, but {} are needed", span.len(), start + bytes),
    };
    span.slice(start as usize, bytes as usize).ok_or_else(short)
}
