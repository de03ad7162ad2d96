//! Runs the passes of an MSM on one device, from scalars to sums.

use std::time::Duration;

use ark_ec::short_weierstrass::Projective;
use ark_ff::AdditiveGroup;

use super::{
    accumulate::Accumulator,
    launch::{kernel_fault, region},
    plan::{MsmPass, MsmPassLayout, MsmPassPlan, PassOutput},
    reduce::{DeviceCurve, Reducer, combine_on_host},
    references::{AlignedPoints, BasesLocation, SortedReferences},
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

pub struct MsmStageTimes {
    pub sort: Duration,
    pub accumulate: Duration,
    pub reduce: Duration,
}

impl StageEvents {
    pub fn times(&self) -> Result<MsmStageTimes, DeviceFault> {
        let [begun, sorted, accumulated, reduced] = &self.0;
        Ok(MsmStageTimes {
            sort: sorted.elapsed_since(begun)?,
            accumulate: accumulated.elapsed_since(sorted)?,
            reduce: reduced.elapsed_since(accumulated)?,
        })
    }
}

/// The device memory of a pass. All spans begin at multiples of [`ALIGN`], in the arena of the
/// points that `bases` locates. Before the first pass their contents do not matter. Between passes
/// other MSMs may use the workspace, but not the other spans.
#[derive(Clone, Copy)]
pub struct MsmPassMemory<'a> {
    /// The scalars of this pass only, canonical, vector after vector.
    pub scalars: DeviceSlice<'a, [u32; 8]>,
    pub bases: BasesLocation,
    /// Has [`MsmPassPlan::bucket_bytes`].
    pub buckets: DeviceSlice<'a, u8>,
    /// Has [`MsmPassPlan::workspace_bytes`].
    pub workspace: DeviceSlice<'a, u8>,
    /// Has [`MsmPassPlan::output_bytes`].
    pub out: DeviceSlice<'a, u8>,
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
    /// order. With `watch`, returns timed events at the start and end of each stage, which makes
    /// small MSMs slower.
    ///
    /// Errors: `KernelMismatch` if a span is too short; driver errors.
    pub fn launch_pass(
        &self,
        stream: &Stream,
        watch: bool,
        plan: &MsmPassPlan,
        pass: &MsmPass,
        memory: MsmPassMemory<'_>,
    ) -> Result<Option<StageEvents>, DeviceFault> {
        let record = || watch.then(|| stream.record_timed()).transpose();
        let layout = plan.layout(pass).ok_or_else(|| fault("a pass is larger than its plan"))?;
        let MsmPassMemory { scalars, bases, buckets, workspace, out } = memory;
        let MsmPassLayout { sort, accumulate, reduce, .. } = &layout;
        let bucket_bytes = accumulate.buckets as usize * accumulate.sum_bytes();
        let buckets = AlignedPoints::of(buckets, plan.job().group)
            .and_then(|buckets| buckets.span.slice(0, bucket_bytes))
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
