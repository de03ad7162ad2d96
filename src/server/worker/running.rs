//! A run in a worker, which the server advances piece by piece.

use std::{
    collections::HashMap,
    mem,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    failure::WorkerFailure,
    mapped::{MappedBytes, MappedMemory, MappedOutput},
    message::{
        Advanced, ArrivedBytes, AwaitedInput, CallToRun, RunState, SumsOfOutput, WrittenBytes,
    },
};
use crate::{
    buffer::Wiper,
    curve::{
        points::{Bases, MsmSums},
        scalars::ScalarEncoding,
    },
    engine::{EncodedScalars, JobControl},
    error::{EngineError as Error, EngineResult as Result},
    exec::{
        AwaitedElements, ElementSink, Executor, ModelledTime, RunCall, RunInProgress, RunOperands,
        RunReport, SumsListener,
    },
    program::{InputSpec, OutputSpec},
    sparse::SparseMatrix,
    sync::Mutex,
};

/// The worker goes on with a run for this long before the server may run another job on the lane.
const TIME_SLICE: Duration = Duration::from_millis(1);

/// Finds mapped memory by its number.
pub type FindMemory<'a> = &'a dyn Fn(u64) -> Option<Arc<MappedMemory>>;

pub struct RunningCall {
    run: Box<dyn RunInProgress>,
    control: JobControl,
    inputs: Vec<RunningInput>,
    outputs: Vec<Option<RunningOutput>>,
    /// The outputs whose sums are wanted early.
    early: Vec<bool>,
    early_sums: Mutex<Vec<SumsOfOutput>>,
    objects: RunningObjects,
}

/// The stored objects that the steps of a run use.
pub struct RunningObjects {
    /// One per MSM step.
    pub bases: Vec<Bases>,
    /// One per step that uses a matrix.
    pub matrices: Vec<SparseMatrix>,
}

struct RunningInput {
    spec: InputSpec,
    bytes: MappedBytes,
}

struct RunningOutput {
    encoding: ScalarEncoding,
    sink: MappedOutput,
}

impl RunningInput {
    fn has(&self, elements: &Range<u64>) -> bool {
        elements.end * self.spec.encoding.width() as u64 <= self.bytes.len()
    }

    fn elements(&self) -> EncodedScalars<'_> {
        EncodedScalars::of(self.spec, &self.bytes)
    }
}

impl RunningCall {
    /// Begins a run.
    pub fn begin(
        executor: &dyn Executor,
        call: CallToRun,
        objects: RunningObjects,
        find: FindMemory<'_>,
    ) -> Result<Self> {
        let wanted: Vec<OutputSpec> = call.outputs.iter().map(|output| output.spec).collect();
        let run = RunCall::new(call.program, &call.inputs, &wanted, call.is_checked)?;
        let mut run = executor.prepare(run.into());
        run.limit_time_on_host(call.time_on_host_max);
        let mut outputs = Vec::with_capacity(call.outputs.len());
        let early = call.outputs.iter().map(|output| output.is_early).collect();
        for output in call.outputs {
            outputs.push(match output.vector {
                Some(placed) => {
                    let mut bytes = MappedBytes::default();
                    bytes.add(0, &placed.pieces, find)?;
                    let sink = MappedOutput::new(bytes);
                    Some(RunningOutput { encoding: placed.encoding, sink })
                }
                None => None,
            });
        }
        let inputs = call.inputs.into_iter();
        let inputs = inputs.map(|spec| RunningInput { spec, bytes: MappedBytes::default() });
        let deadline = call.time_left.and_then(|left| Instant::now().checked_add(left));
        run.begin(&objects.bases)?;
        let control = JobControl::new(deadline);
        let inputs = inputs.collect();
        let early_sums = Mutex::default();
        Ok(Self { run, control, inputs, outputs, early, early_sums, objects })
    }

    pub fn control(&self) -> JobControl {
        self.control.clone()
    }

    /// Adds bytes that have arrived, and goes on until the run needs others, or for a time slice.
    pub fn advance(&mut self, arrived: &[ArrivedBytes], find: FindMemory<'_>) -> Result<Advanced> {
        for ArrivedBytes { input, start, pieces } in arrived {
            let input = self.inputs.get_mut(*input as usize);
            let input = input.ok_or_else(|| Error::Internal("the run has no such input".into()))?;
            input.bytes.add(*start, pieces, find)?;
        }
        let begun = Instant::now();
        let modelled = self.run.plan().modelled;
        let state = loop {
            let awaited = self.run.awaited();
            let is_here = |next: &AwaitedElements| self.inputs[next.input].has(&next.elements);
            // The server must learn early that the run has moved to the host and takes longer.
            let has_moved = self.run.plan().modelled != modelled;
            let is_here = awaited.as_ref().is_none_or(is_here);
            let has_sums = !self.early_sums.lock().is_empty();
            if !is_here || has_moved || has_sums || begun.elapsed() > TIME_SLICE {
                let awaited = awaited.map(|AwaitedElements { input, elements }| AwaitedInput {
                    input: input as u32,
                    elements,
                });
                break RunState::Awaits(awaited);
            }
            if let Some(report) = self.step()? {
                break RunState::Done(Box::new(report));
            }
        };
        let ModelledTime { total: modelled_total, longest } = self.run.plan().modelled;
        let written = self.take_written();
        let longest_step = longest.0;
        let early_sums = mem::take(&mut *self.early_sums.lock());
        Ok(Advanced { modelled_total, longest_step, written, early_sums, state })
    }

    fn step(&mut self) -> Result<Option<RunReport>> {
        let inputs: Vec<_> = self.inputs.iter().map(RunningInput::elements).collect();
        let sinks = self.outputs.iter().map(|output| {
            let RunningOutput { encoding, sink } = output.as_ref()?;
            Some(ElementSink { encoding: *encoding, sink })
        });
        let sinks: Vec<_> = sinks.collect();
        let RunningObjects { bases, matrices } = &self.objects;
        let known = &self.early_sums;
        let report = |output: usize| {
            move |sums: &MsmSums| {
                known.lock().push(SumsOfOutput { output: output as u32, sums: sums.clone() });
            }
        };
        let listeners = self.early.iter().enumerate();
        let listeners: Vec<_> =
            listeners.map(|(output, is_early)| is_early.then(|| report(output))).collect();
        let early_sums = listeners.iter().map(|listener| Some(listener.as_ref()? as SumsListener));
        let early_sums: Vec<_> = early_sums.collect();
        let sinks = &sinks[..];
        let early_sums = &early_sums[..];
        let operands = RunOperands { inputs: &inputs, bases, matrices, sinks, early_sums };
        operands.run(|| self.run.step(&operands, &self.control))
    }

    fn take_written(&self) -> Vec<WrittenBytes> {
        let outputs = self.outputs.iter().enumerate();
        let written = outputs.filter_map(|(number, output)| {
            let ranges = output.as_ref()?.sink.take_written();
            Some(ranges.into_iter().map(move |bytes| WrittenBytes { output: number as u32, bytes }))
        });
        written.flatten().collect()
    }
}

/// The runs that are in progress, by the server's number.
#[derive(Default)]
pub struct Runs {
    slots: Mutex<HashMap<u64, RunSlot>>,
    /// Drops runs that the server has given up: that waits for the device.
    dropper: Wiper,
}

pub struct AdvancedCall {
    pub advanced: Advanced,
    /// Dropping it releases its memory on the GPU.
    pub ended: Option<Box<RunningCall>>,
}

struct RunSlot {
    control: JobControl,
    /// `None` while a lane advances it.
    call: Option<Box<RunningCall>>,
    is_dropped: bool,
}

impl Runs {
    /// Advances run `number` by `advance`, which gets the run; `begin` makes it if it is new.
    /// Returns the run, too, if it has ended.
    pub fn advance(
        &self,
        number: u64,
        begin: Option<impl FnOnce() -> Result<RunningCall>>,
        advance: impl FnOnce(&mut RunningCall) -> Result<Advanced>,
    ) -> Result<AdvancedCall, WorkerFailure> {
        let missing = || Error::Internal("the run is not known, or is being advanced".into());
        let mut call = match begin {
            Some(begin) => {
                let call = Box::new(begin()?);
                let control = call.control();
                let slot = RunSlot { control, call: None, is_dropped: false };
                self.slots.lock().insert(number, slot);
                call
            }
            None => {
                let mut runs = self.slots.lock();
                runs.get_mut(&number).and_then(|slot| slot.call.take()).ok_or_else(missing)?
            }
        };
        // A run that panics must not stay in the table.
        let advanced = catch_unwind(AssertUnwindSafe(|| advance(&mut call)))
            .unwrap_or_else(|_| Err(Error::Internal("a job panicked".into())));
        let is_over = !matches!(&advanced, Ok(Advanced { state: RunState::Awaits(_), .. }));
        let mut runs = self.slots.lock();
        let ended = match runs.get_mut(&number) {
            Some(slot) if !is_over && !slot.is_dropped => {
                slot.call = Some(call);
                None
            }
            _ => {
                runs.remove(&number);
                Some(call)
            }
        };
        drop(runs);
        Ok(AdvancedCall { advanced: advanced?, ended })
    }

    pub fn cancel(&self, number: u64) {
        if let Some(slot) = self.slots.lock().get(&number) {
            slot.control.cancel();
        }
    }

    /// Lets a run be dropped, soon or when its lane returns it.
    pub fn drop_run(&self, number: u64) {
        let mut runs = self.slots.lock();
        let Some(slot) = runs.get_mut(&number) else { return };
        slot.control.cancel();
        slot.is_dropped = true;
        let call = slot.call.take();
        if call.is_some() {
            runs.remove(&number);
        }
        drop(runs);
        self.dropper.drop_later(call);
    }
}
