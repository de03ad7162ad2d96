//! Runs the passes of an MSM on one device, from scalars to sums.

use std::time::Duration;

use ark_ec::short_weierstrass::Projective;
use ark_ff::AdditiveGroup;

use super::{
    accumulate::Accumulator,
    launch::{kernel_fault, region},
    plan::{MsmPass, MsmPassLayout, MsmPassPlan, PassOutput},
    reduce::{DeviceCurve, Reducer, combine_on_host},
    references::{BasesLocation, SortedReferences, align_to_points},
    sort::Sorter,
};
use crate::device::{
    ALIGN, DeviceContext, DeviceFault, DeviceSlice, Event, GpuUnavailable, Stream,
};

pub struct MsmKernels {
    sorter: Sorter,
    accumulator: Accumulator,
    reducer: Reducer,
}

/// Timed events on a pass's stream, at the start and end of each stage.
pub struct StageEvents([Event; 4]);

impl StageEvents {
    pub fn stages(&self) -> Result<[(&'static str, Duration); 3], DeviceFault> {
        let [begun, sorted, accumulated, reduced] = &self.0;
        Ok([
            ("sort", sorted.elapsed_since(begun)?),
            ("accumulate", accumulated.elapsed_since(sorted)?),
            ("reduce", reduced.elapsed_since(accumulated)?),
        ])
    }
}

impl MsmKernels {
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
    /// timed events at the start and end of each stage, which costs the host about 10 us.
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
        let record = || watch.then(|| stream.record_timed()).transpose();
        let layout = layout(plan, pass)?;
        let MsmPassLayout { sort, accumulate, reduce, .. } = &layout;
        let bucket_bytes = accumulate.buckets as usize * accumulate.sum_bytes();
        let buckets = align_to_points(buckets, plan.job().group)
            .and_then(|(buckets, _)| buckets.slice(0, bucket_bytes))
            .ok_or_else(|| fault("the buckets' span is too short or too far for references"))?;
        let sorted = sorted_references(&layout, workspace)?;
        let scratch = region(workspace, layout.scratch.clone()).ok_or_else(short)?;
        let bases = BasesLocation { first: bases.first + pass.points.start, ..bases };
        let begun = record()?;
        self.sorter.run(stream, sort, scalars, bases, scratch, sorted)?;
        let sort_end = record()?;
        self.accumulator.run(stream, accumulate, sorted, buckets, scratch)?;
        let accumulate_end = record()?;
        if pass.reduces {
            // A result belongs to vectors and sets, whichever points the last pass covers.
            let is_own = |other: &MsmPass| other.vectors == pass.vectors && other.sets == pass.sets;
            let output = plan.outputs().find(|output| is_own(&output.pass)).ok_or_else(short)?;
            let out = region(out, output.bytes).ok_or_else(short)?;
            self.reducer.run(stream, reduce, buckets, scratch, out)?;
        }
        let events = [begun, sort_end, accumulate_end, record()?];
        let events = events.into_iter().collect::<Option<Vec<_>>>();
        Ok(events.and_then(|events| events.try_into().ok()).map(StageEvents))
    }

    /// The sorted references that a pass left in its workspace, with one start more than buckets.
    /// Lets benchmarks compare accumulation strategies.
    #[cfg(feature = "internals")]
    pub fn sorted_references<'w>(
        plan: &MsmPassPlan,
        pass: &MsmPass,
        workspace: DeviceSlice<'w, u8>,
    ) -> Result<SortedReferences<'w>, DeviceFault> {
        sorted_references(&layout(plan, pass)?, workspace)
    }

    /// The sum of each vector, from the [`MsmPassPlan::output_bytes`] bytes that the passes wrote.
    pub fn combine_sums<P: DeviceCurve>(plan: &MsmPassPlan, bytes: &[u8]) -> Vec<Projective<P>> {
        let mut sums = vec![Projective::ZERO; plan.job().vectors as usize];
        for PassOutput { pass, reduce, bytes: range } in plan.outputs() {
            let start = range.start as usize;
            let own = &bytes[start..start + reduce.output_bytes() as usize];
            let shift = plan.windows().set_shift(pass.sets.start);
            let vectors = &mut sums[pass.vectors.start as usize..];
            for (sum, mut part) in vectors.iter_mut().zip(combine_on_host::<P>(&reduce, own)) {
                for _ in 0..shift {
                    part.double_in_place();
                }
                *sum += part;
            }
        }
        sums
    }
}

fn layout(plan: &MsmPassPlan, pass: &MsmPass) -> Result<MsmPassLayout, DeviceFault> {
    plan.layout(pass).ok_or_else(|| fault("a pass is larger than its plan"))
}

fn sorted_references<'w>(
    layout: &MsmPassLayout,
    workspace: DeviceSlice<'w, u8>,
) -> Result<SortedReferences<'w>, DeviceFault> {
    let starts = region::<u32>(workspace, layout.starts.clone()).ok_or_else(short)?;
    Ok(SortedReferences {
        references: region(workspace, layout.references.clone()).ok_or_else(short)?,
        starts: starts.slice(0, layout.accumulate.buckets as usize + 1).ok_or_else(short)?,
    })
}

fn short() -> DeviceFault {
    fault("workspace or results are shorter than their plan")
}

fn fault(problem: &str) -> DeviceFault {
    kernel_fault("msm", problem)
}

const _: () = assert!(ALIGN.is_multiple_of(32), "scalars are read in two pieces of 16 bytes");
