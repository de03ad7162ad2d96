//! Runs the passes of an MSM on one device, from scalars to sums.

use std::time::Duration;

use ark_ec::short_weierstrass::Projective;
use ark_ff::AdditiveGroup;
use bytemuck::Pod;

use super::{
    MsmPass, MsmPassPlan,
    accumulate::{self, Accumulator},
    plan::MsmPassLayout,
    reduce::{self, DeviceCurve, Reducer},
    sort::{self, Sorter},
};
use crate::device::{
    ALIGN, DeviceContext, DeviceFault, DeviceSlice, Event, GpuUnavailable, Stream,
};

/// The kernels of all stages on one device.
pub struct MsmKernels {
    sorter: Sorter,
    accumulator: Accumulator,
    reducer: Reducer,
}

/// Timed events on a pass's stream, at the start and end of each stage.
pub struct StageEvents([Event; 4]);

impl StageEvents {
    /// The duration of each stage of a completed pass.
    ///
    /// Errors: driver errors.
    pub fn stages(&self) -> Result<[(&'static str, Duration); 3], DeviceFault> {
        let [begun, listed, summed, reduced] = &self.0;
        Ok([
            ("sort", listed.elapsed_since(begun)?),
            ("accumulate", summed.elapsed_since(listed)?),
            ("reduce", reduced.elapsed_since(summed)?),
        ])
    }
}

/// The indices of bases, as references count them: see [`super::align_to_points`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BasesLocation {
    /// The index of the first base.
    pub first: u32,
    /// Points from one table's start to the next one's; ignored if there is one table.
    pub stride: u32,
}

impl MsmKernels {
    /// Loads the kernels.
    ///
    /// Errors: `NoKernels`, `NoImageForDevice`, `Device`.
    pub fn load(context: &DeviceContext) -> Result<Self, GpuUnavailable> {
        Ok(Self {
            sorter: Sorter::load(context)?,
            accumulator: Accumulator::load(context)?,
            reducer: Reducer::load(context)?,
        })
    }

    /// Launches one pass; the passes of an MSM run on one stream in [`MsmPassPlan::passes`]'s
    /// order.
    ///
    /// Shape: `scalars` are those of the pass only, canonical, vector after vector; `buckets` has
    /// [`MsmPassPlan::bucket_bytes`], `workspace` [`MsmPassPlan::workspace_bytes`], `out`
    /// [`MsmPassPlan::output_bytes`]; all begin at multiples of [`ALIGN`], in the arena of the
    /// points that `bases` locates. Before the first pass their contents do not matter. Between
    /// passes other MSMs may use the workspace, but not the other spans. With `watch`, returns
    /// events at the stages' borders, which costs the host about 10 us.
    ///
    /// Errors: `KernelMismatch` if a span is too short; driver errors.
    #[allow(clippy::too_many_arguments)] // one per stage input and region
    pub fn launch_pass(
        &self,
        stream: &Stream,
        watch: bool,
        plan: &MsmPassPlan,
        pass: &MsmPass,
        scalars: DeviceSlice<'_, [u32; 8]>,
        bases: BasesLocation,
        buckets: DeviceSlice<'_, u8>,
        workspace: DeviceSlice<'_, u8>,
        out: DeviceSlice<'_, u8>,
    ) -> Result<Option<StageEvents>, DeviceFault> {
        let mark = || watch.then(|| stream.record_timed()).transpose();
        let layout =
            plan.layout(pass).ok_or_else(|| kernel_fault("a pass is larger than its plan"))?;
        let MsmPassLayout { sort, accumulate, reduce, .. } = &layout;
        let bucket_bytes = accumulate.buckets as usize * accumulate.sum_bytes();
        let buckets = super::align_to_points(buckets, plan.job().group)
            .and_then(|(buckets, _)| buckets.slice(0, bucket_bytes))
            .ok_or_else(|| {
                kernel_fault("the buckets' span is too short or too far for references")
            })?;
        let sorted = self.sorted(&layout, workspace)?;
        let accumulate::SortedReferences { references, starts } = sorted;
        let scratch = span(workspace, layout.scratch, layout.bytes)?;
        let tables =
            sort::TableIndices { first: bases.first + pass.points.0, stride: bases.stride };
        let begun = mark()?;
        let lists = sort::SortOutput { references, starts };
        self.sorter.run(stream, sort, scalars, tables, scratch, lists)?;
        let listed = mark()?;
        self.accumulator.run(stream, accumulate, sorted, buckets, scratch)?;
        let summed = mark()?;
        if pass.reduces {
            // A result belongs to vectors and sets, whichever points the last pass covers.
            let own = |other: &MsmPass| (other.vectors, other.sets) == (pass.vectors, pass.sets);
            let before = plan.outputs().take_while(|(other, _)| !own(other));
            let at: u64 = before.map(|(_, bytes)| bytes).sum();
            let out = span(out, at, at + reduce.output_bytes())?;
            self.reducer.run(stream, reduce, buckets, scratch, out)?;
        }
        let marks = [begun, listed, summed, mark()?].into_iter().collect::<Option<Vec<_>>>();
        Ok(marks.and_then(|marks| marks.try_into().ok()).map(StageEvents))
    }

    /// The sorted references and the number of buckets that a pass left in its workspace. Lets
    /// benchmarks compare accumulation strategies.
    ///
    /// Errors: `KernelMismatch` if the workspace is shorter than the pass's.
    pub fn sorted_references<'w>(
        &self,
        plan: &MsmPassPlan,
        pass: &MsmPass,
        workspace: DeviceSlice<'w, u8>,
    ) -> Result<(accumulate::SortedReferences<'w>, u32), DeviceFault> {
        let layout =
            plan.layout(pass).ok_or_else(|| kernel_fault("a pass is larger than its plan"))?;
        Ok((self.sorted(&layout, workspace)?, layout.accumulate.buckets))
    }

    fn sorted<'w>(
        &self,
        layout: &MsmPassLayout,
        workspace: DeviceSlice<'w, u8>,
    ) -> Result<accumulate::SortedReferences<'w>, DeviceFault> {
        Ok(accumulate::SortedReferences {
            references: span(workspace, layout.references, layout.starts)?,
            starts: span(workspace, layout.starts, layout.scratch)?,
        })
    }

    /// The sum of each vector, from the [`MsmPassPlan::output_bytes`] bytes that the passes wrote.
    pub fn combine_sums<P: DeviceCurve>(plan: &MsmPassPlan, bytes: &[u8]) -> Vec<Projective<P>> {
        let mut sums = vec![Projective::ZERO; plan.job().vectors as usize];
        let mut at = 0;
        for (pass, padded) in plan.outputs() {
            let reduce = plan.reduce(&pass);
            let own = &bytes[at..at + reduce.output_bytes() as usize];
            let shift = plan.windows().set_shift(pass.sets.0);
            let vectors = &mut sums[pass.vectors.0 as usize..];
            for (sum, mut part) in
                vectors.iter_mut().zip(reduce::combine_on_host::<P>(&reduce, own))
            {
                for _ in 0..shift {
                    part.double_in_place();
                }
                *sum += part;
            }
            at += padded as usize;
        }
        sums
    }
}

/// Casts bytes `begin..end` to elements.
fn span<T: Pod>(
    whole: DeviceSlice<'_, u8>,
    begin: u64,
    end: u64,
) -> Result<DeviceSlice<'_, T>, DeviceFault> {
    let part = whole.slice(begin as usize, (end - begin) as usize).and_then(|part| part.cast());
    part.ok_or_else(|| kernel_fault("workspace or results are shorter than their plan"))
}

fn kernel_fault(problem: &str) -> DeviceFault {
    DeviceFault::KernelMismatch { kernel: "msm".to_owned(), problem: problem.to_owned() }
}

const _: () = assert!(ALIGN.is_multiple_of(32), "scalars are read in two pieces of 16 bytes");
