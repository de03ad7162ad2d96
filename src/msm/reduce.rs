//! Bucket reduction: from buckets to one point per vector, with `kernels/msm/reduce.cu`.
//!
//! A [`Plan`] lists the launches for a [`Shape`], [`Reducer::run`] executes them, and [`finish`]
//! does the last doublings of a few points on the host, which is faster at them.

mod ending;
mod finish;
mod plan;
mod shape;
mod step;

pub use finish::{Coordinate, Curve, combine_on_host};
pub use plan::Plan;
use shape::SliceBlock;
pub use shape::{Ending, Shape, Tuning, Weights};
pub use step::{Halves, Ladder, Step, Terms};

use crate::{
    curve::Group,
    device::{Block, Context, Fault, Kernel, Module, Ptr, Span, Stream, Unusable},
};

/// Threads per block, as in `kernels/msm/reduce.cu`.
const SUM_THREADS: u32 = 128;

/// Parameters: out, points, arrays, buckets, lg_columns, row_parts, column_parts.
type SlicesKernel = Kernel<(Ptr<u8>, Ptr<u8>, u32, u32, u32, u32, u32)>;
/// Parameters: out, points, affine, arrays, buckets, lg_columns, row_parts, column_parts, team.
type SumsKernel = Kernel<(Ptr<u8>, Ptr<u8>, u32, u32, u32, u32, u32, u32, u32)>;
/// Parameters: out, points, affine, arrays, rows, columns, columns_at, lg_parts, team.
type TermsKernel = Kernel<(Ptr<u8>, Ptr<u8>, u32, u32, u32, u32, u32, u32, u32)>;
/// Parameters: out, points, sums, count, team, period, width, narrow.
type CollectKernel = Kernel<(Ptr<u8>, Ptr<u8>, u32, u32, u32, u32, u32, u64)>;

/// The kernels of both groups.
pub struct Reducer {
    g1: Kernels,
    g2: Kernels,
}

struct Kernels {
    slices: SlicesKernel,
    slice_threads: u32,
    /// For buckets in XYZZ; G1 only.
    slices_xyzz: Option<SlicesKernel>,
    sums: SumsKernel,
    terms: TermsKernel,
    collect: CollectKernel,
}

impl Kernels {
    fn of(module: &Module, group: Group) -> Result<Self, Fault> {
        let name = |stage: &str| format!("{}_reduce_{stage}", group.name());
        let SliceBlock { block: slices, .. } = SliceBlock::of(group);
        let split = Block::of(SUM_THREADS);
        Ok(Self {
            slices: module.kernel(&name("slices"), slices)?,
            slice_threads: slices.threads,
            slices_xyzz: match group {
                Group::G1 => Some(module.kernel(&name("slices_xyzz"), Block::of(slices.threads))?),
                Group::G2 => None,
            },
            sums: module.kernel(&name("sums"), split)?,
            terms: module.kernel(&name("terms"), split)?,
            collect: module.kernel(&name("collect"), split)?,
        })
    }

    fn launch(
        &self,
        stream: &Stream,
        step: &Step,
        out: Span<'_, u8>,
        points: Span<'_, u8>,
    ) -> Result<(), Fault> {
        let blocks = |sums: u64, team: u32| {
            (sums * u64::from(team)).div_ceil(step::SUM_GROUPS.into()) as u32
        };
        match *step {
            Step::Slices { halves: h, affine } => {
                let Halves { arrays, buckets, lg_columns, row_parts, column_parts } = h;
                let grid = h.slices().div_ceil(self.slice_threads.into()) as u32;
                let given = (out, points, arrays, buckets, lg_columns, row_parts, column_parts);
                let xyzz = self.slices_xyzz.as_ref().filter(|_| !affine);
                xyzz.unwrap_or(&self.slices).launch(stream, grid, given)
            }
            Step::Sums { halves: h, sliced, affine, team } => {
                let Halves { arrays, buckets, lg_columns, .. } = h;
                let (r, c) = if sliced { (h.row_parts, h.column_parts) } else { (0, 0) };
                let affine = affine.into();
                let given = (out, points, affine, arrays, buckets, lg_columns, r, c, team);
                self.sums.launch(stream, blocks(h.sums(), team), given)
            }
            Step::Terms { terms, affine, team } => {
                let Terms { arrays, rows, columns, columns_offset: columns_at, lg_parts } = terms;
                let affine = affine.into();
                let given =
                    (out, points, affine, arrays, rows, columns, columns_at, lg_parts, team);
                self.terms.launch(stream, blocks(step.points_out(), team), given)
            }
            Step::Combine { sums, count, team, ladder } => {
                let Ladder { period, width, narrow_mask: narrow } = ladder;
                let given = (out, points, sums, count, team, period, width, narrow);
                self.collect.launch(stream, blocks(sums.into(), team), given)
            }
        }
    }
}

impl Reducer {
    /// Loads the kernels.
    pub fn load(context: &Context) -> Result<Self, Unusable> {
        let index = context.identity().index;
        let module = Module::load(context, "msm/reduce")?;
        let of =
            |group| Kernels::of(&module, group).map_err(|fault| Unusable::Device { index, fault });
        Ok(Self { g1: of(Group::G1)?, g2: of(Group::G2)? })
    }

    /// Launches the plan: reduces `buckets` to points in XYZZ in `out`, for [`finish`].
    ///
    /// Shape: `buckets` has [`Shape::bucket_bytes`], vector after vector, set after set;
    /// affine, x canonical, y below 2p, infinity as zeros; or XYZZ, below 2p, infinity with zz = 0.
    /// `out` has [`Plan::bytes_out`] bytes, `workspace` [`Plan::workspace_bytes`], with any
    /// contents. All begin at multiples of 16 bytes.
    /// Errors: `Kernel` if a span is too short; driver errors.
    pub fn run(
        &self,
        stream: &Stream,
        plan: &Plan,
        buckets: Span<'_, u8>,
        workspace: Span<'_, u8>,
        out: Span<'_, u8>,
    ) -> Result<(), Fault> {
        let kernels = match plan.shape.group {
            Group::G1 => &self.g1,
            Group::G2 => &self.g2,
        };
        let mut points = region(buckets, 0, plan.shape.bucket_bytes())?;
        let out = region(out, 0, plan.output_bytes())?;
        let areas =
            [region(workspace, 0, plan.areas[0])?, region(workspace, plan.areas[0], plan.areas[1])?];
        for (at, step) in plan.steps.iter().enumerate() {
            let last = at + 1 == plan.steps.len();
            let to = if last { out } else { areas[at % 2] };
            kernels.launch(stream, step, to, points)?;
            points = to;
        }
        Ok(())
    }
}

fn region(span: Span<'_, u8>, at: u64, bytes: u64) -> Result<Span<'_, u8>, Fault> {
    let short = || Fault::KernelMismatch {
        kernel: "reduce".to_owned(),
        problem: format!("a span has {} bytes, but {} are needed", span.len(), at + bytes),
    };
    span.part(at as usize, bytes as usize).ok_or_else(short)
}
