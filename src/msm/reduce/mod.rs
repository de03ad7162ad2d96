//! Bucket reduction: from buckets to one point per vector, with `kernels/msm/reduce.cu`.
//!
//! A [`ReducePlan`] lists the launches for a [`ReduceShape`], [`Reducer::run`] executes them, and
//! [`finish`] does the last doublings of a few points on the host, which is faster at them.

mod finish;
mod plan;
mod shape;
mod step;
mod takeover;

pub use finish::{DeviceCurve, LooseCoordinate, combine_on_host};
pub use plan::ReducePlan;
use shape::SliceBlocks;
pub use shape::{BucketWeights, HostTakeover, ReduceShape, ReduceTuning};
pub use step::{PeriodicDoublings, ReduceStep, ReduceTerms, RowsAndColumns};

use crate::{
    curve::Group,
    device::{
        BlockShape, DeviceContext, DeviceFault, DevicePtr, DeviceSlice, GpuUnavailable, Kernel,
        KernelModule, Stream,
    },
};

/// Threads per block, as in `kernels/msm/reduce.cu`.
const SUM_THREADS: u32 = 128;

/// Parameters: out, points, arrays, buckets, lg_columns, row_parts, column_parts.
type SlicesKernel = Kernel<(DevicePtr<u8>, DevicePtr<u8>, u32, u32, u32, u32, u32)>;
/// Parameters: out, points, affine, arrays, buckets, lg_columns, row_parts, column_parts, team.
type SumsKernel = Kernel<(DevicePtr<u8>, DevicePtr<u8>, u32, u32, u32, u32, u32, u32, u32)>;
/// Parameters: out, points, affine, arrays, rows, columns, columns_at, lg_parts, team.
type TermsKernel = Kernel<(DevicePtr<u8>, DevicePtr<u8>, u32, u32, u32, u32, u32, u32, u32)>;
/// Parameters: out, points, sums, count, team, period, width, narrow.
type CollectKernel = Kernel<(DevicePtr<u8>, DevicePtr<u8>, u32, u32, u32, u32, u32, u64)>;

/// The kernels of both groups.
pub struct Reducer {
    g1: ReduceKernels,
    g2: ReduceKernels,
}

struct ReduceKernels {
    slices: SlicesKernel,
    slice_threads: u32,
    /// For buckets in XYZZ; G1 only.
    slices_xyzz: Option<SlicesKernel>,
    sums: SumsKernel,
    terms: TermsKernel,
    collect: CollectKernel,
}

impl ReduceKernels {
    fn of(module: &KernelModule, group: Group) -> Result<Self, DeviceFault> {
        let name = |stage: &str| format!("{}_reduce_{stage}", group.name());
        let SliceBlocks { block: slices, .. } = SliceBlocks::of(group);
        let split = BlockShape::threads(SUM_THREADS);
        Ok(Self {
            slices: module.kernel(&name("slices"), slices)?,
            slice_threads: slices.threads,
            slices_xyzz: match group {
                Group::G1 => {
                    Some(module.kernel(&name("slices_xyzz"), BlockShape::threads(slices.threads))?)
                }
                Group::G2 => None,
            },
            sums: module.kernel(&name("sums"), split)?,
            terms: module.kernel(&name("terms"), split)?,
            collect: module.kernel(&name("combine"), split)?,
        })
    }

    fn launch(
        &self,
        stream: &Stream,
        step: &ReduceStep,
        out: DeviceSlice<'_, u8>,
        points: DeviceSlice<'_, u8>,
    ) -> Result<(), DeviceFault> {
        let blocks = |sums: u64, team: u32| {
            (sums * u64::from(team)).div_ceil(step::SUM_GROUPS.into()) as u32
        };
        match *step {
            ReduceStep::Slices { halves: h, affine } => {
                let RowsAndColumns { arrays, buckets, lg_columns, row_parts, column_parts } = h;
                let grid = h.slices().div_ceil(self.slice_threads.into()) as u32;
                let given = (out, points, arrays, buckets, lg_columns, row_parts, column_parts);
                let xyzz = self.slices_xyzz.as_ref().filter(|_| !affine);
                xyzz.unwrap_or(&self.slices).launch(stream, grid, given)
            }
            ReduceStep::Sums { halves: h, sliced, affine, team } => {
                let RowsAndColumns { arrays, buckets, lg_columns, .. } = h;
                let (r, c) = if sliced { (h.row_parts, h.column_parts) } else { (0, 0) };
                let affine = affine.into();
                let given = (out, points, affine, arrays, buckets, lg_columns, r, c, team);
                self.sums.launch(stream, blocks(h.sums(), team), given)
            }
            ReduceStep::Terms { terms, affine, team } => {
                let ReduceTerms { arrays, rows, columns, columns_offset: columns_at, lg_parts } =
                    terms;
                let affine = affine.into();
                let given =
                    (out, points, affine, arrays, rows, columns, columns_at, lg_parts, team);
                self.terms.launch(stream, blocks(step.points_out(), team), given)
            }
            ReduceStep::Combine { sums, count, team, ladder } => {
                let PeriodicDoublings { period, width, narrow_mask: narrow } = ladder;
                let given = (out, points, sums, count, team, period, width, narrow);
                self.collect.launch(stream, blocks(sums.into(), team), given)
            }
        }
    }
}

impl Reducer {
    /// Loads the kernels.
    pub fn load(context: &DeviceContext) -> Result<Self, GpuUnavailable> {
        let index = context.identity().index;
        let module = KernelModule::load(context, "msm/reduce")?;
        let of = |group| {
            ReduceKernels::of(&module, group)
                .map_err(|fault| GpuUnavailable::Device { index, fault })
        };
        Ok(Self { g1: of(Group::G1)?, g2: of(Group::G2)? })
    }

    /// Launches the plan: reduces `buckets` to points in XYZZ in `out`, for [`finish`].
    ///
    /// Shape: `buckets` has [`ReduceShape::bucket_bytes`], vector after vector, set after set;
    /// affine, x canonical, y below 2p, infinity as zeros; or XYZZ, below 2p, infinity with zz = 0.
    /// `out` has [`ReducePlan::output_bytes`] bytes, `workspace` [`ReducePlan::workspace_bytes`],
    /// with any contents. All begin at multiples of 16 bytes. Errors: `Kernel` if a span is too
    /// short; driver errors.
    pub fn run(
        &self,
        stream: &Stream,
        plan: &ReducePlan,
        buckets: DeviceSlice<'_, u8>,
        workspace: DeviceSlice<'_, u8>,
        out: DeviceSlice<'_, u8>,
    ) -> Result<(), DeviceFault> {
        let kernels = match plan.shape.group {
            Group::G1 => &self.g1,
            Group::G2 => &self.g2,
        };
        let mut points = region(buckets, 0, plan.shape.bucket_bytes())?;
        let out = region(out, 0, plan.output_bytes())?;
        let areas = [
            region(workspace, 0, plan.areas[0])?,
            region(workspace, plan.areas[0], plan.areas[1])?,
        ];
        for (at, step) in plan.steps.iter().enumerate() {
            let last = at + 1 == plan.steps.len();
            let to = if last { out } else { areas[at % 2] };
            kernels.launch(stream, step, to, points)?;
            points = to;
        }
        Ok(())
    }
}

fn region(
    span: DeviceSlice<'_, u8>,
    at: u64,
    bytes: u64,
) -> Result<DeviceSlice<'_, u8>, DeviceFault> {
    let short = || DeviceFault::KernelMismatch {
        kernel: "reduce".to_owned(),
        problem: format!("a span has {} bytes, but {} are needed", span.len(), at + bytes),
    };
    span.slice(at as usize, bytes as usize).ok_or_else(short)
}
