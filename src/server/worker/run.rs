//! A run on a worker, as the server sees it. If the worker is lost, the run begins again on another
//! one: its inputs are still in the server's memory.
//!
//! A lost worker costs no accepted call, with four exceptions: a call that writes to memory that it
//! also reads (in a region); a call that two workers were lost with; a change of what that GPU
//! holds (`SetResidency`); and, while no GPU serves, a call that would take too long on the host.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use tracing::{debug, info, warn};

use super::{
    failure::WorkerFailure,
    link::WorkerLost,
    message::{
        AdvanceRequest, Advanced, ArrivedBytes, AwaitedInput, CallToRun, ControlRequest,
        LaneOutcome, LaneRequest, PlacedOutput, PlacedVector, RunState, SumsOfOutput,
    },
    pool::WorkerPool,
    process::{BacklogShare, LiveWorker, RequestFailure},
    reply::OutputProgress,
    sent_objects::BasesScope,
};
use crate::{
    buffer::{ByteSink, SharedPiece},
    engine::{EncodedScalars, JobControl},
    error::{EngineError as Error, EngineResult as Result},
    exec::{
        AwaitedElements, Executor, HostExecutor, ModelledTime, ProgramPlan, RunCall, RunInProgress,
        RunOperands, RunReport,
    },
    program::{StepKind, ValueId},
    telemetry,
};

/// A run is refused once this many workers were lost while they computed it.
const LOSSES_MAX: u32 = 2;

/// A worker whose answer takes longer than this multiple of its backlog must answer a ping.
const MODEL_TIMES: u32 = 20;

pub struct WorkerRun {
    pool: Arc<WorkerPool>,
    /// Runs the call if no worker can.
    host: HostExecutor,
    call: Arc<RunCall>,
    plan: ProgramPlan,
    time_on_host_max: Duration,
    scope: BasesScope,
    /// Begins the run unless it is lost.
    preferred: Option<Arc<LiveWorker>>,
    phase: WorkerRunPhase,
    /// The workers that were lost with the call, of which the run may be a part.
    losses: Arc<AtomicU32>,
}

enum WorkerRunPhase {
    NotBegun,
    OnWorker(RemoteRun),
    OnHost(Box<dyn RunInProgress>),
    Ended,
}

/// A run that a worker has begun.
struct RemoteRun {
    worker: Arc<LiveWorker>,
    number: u64,
    /// The bytes of each input that the worker knows of.
    known: Vec<u64>,
    awaited: Option<AwaitedElements>,
    /// Where the run writes.
    written: Vec<SharedPiece>,
    /// What it has written, as the worker reports it; one per output.
    outputs: Vec<OutputProgress>,
    /// Whether the run writes to memory that it also reads, so that it cannot be repeated.
    is_in_place: bool,
    is_over: bool,
}

impl Drop for RemoteRun {
    fn drop(&mut self) {
        if !self.is_over && !self.worker.link.is_lost() {
            let _lost = self.worker.link.control(&ControlRequest::DropRun(self.number), None);
        }
    }
}

impl WorkerRun {
    pub fn new(
        pool: Arc<WorkerPool>,
        host: HostExecutor,
        call: Arc<RunCall>,
        plan: ProgramPlan,
    ) -> Self {
        let phase = WorkerRunPhase::NotBegun;
        let losses = Arc::default();
        let time_on_host_max = Duration::MAX;
        let scope = BasesScope::WholeObject;
        let preferred = None;
        Self { pool, host, call, plan, time_on_host_max, scope, preferred, phase, losses }
    }

    /// Sets which points of its bases a worker maps.
    pub fn use_bases(&mut self, scope: BasesScope) {
        self.scope = scope;
    }

    /// Makes runs that are parts of a call count its lost workers together.
    pub fn share_losses(&mut self, losses: &Arc<AtomicU32>) {
        self.losses = losses.clone();
    }

    /// Makes the run begin on this worker unless that is lost.
    pub fn prefer(&mut self, worker: Arc<LiveWorker>) {
        self.preferred = Some(worker);
    }

    fn choose(
        &self,
        operands: &RunOperands<'_>,
        control: &JobControl,
    ) -> Result<Option<Arc<LiveWorker>>> {
        match &self.preferred {
            Some(worker) if !worker.link.is_lost() => Ok(Some(worker.clone())),
            _ => self.pool.choose(operands, self.scope, control),
        }
    }

    /// Begins the run on a worker, or on the host if there is none.
    fn begin(&mut self, operands: &RunOperands<'_>, control: &JobControl) -> Result<Begun> {
        let Some(worker) = self.choose(operands, control)? else {
            let mut on_host = self.host.prepare(self.call.clone());
            self.plan.modelled = on_host.plan().modelled;
            if self.plan.modelled.total > self.time_on_host_max {
                return Err(Error::DeviceLost);
            }
            warn!("no GPU serves: the host runs a call");
            on_host.begin(operands.bases)?;
            self.phase = WorkerRunPhase::OnHost(on_host);
            return Ok(Begun::OnHost);
        };
        let objects = match worker.objects.name(&worker.link, operands, self.scope) {
            Ok(named) => named?,
            Err(WorkerLost) => return Ok(Begun::Lost(worker)),
        };
        let mut outputs = Vec::with_capacity(operands.sinks.len());
        let sinks = operands.sinks.iter().zip(self.placed_bytes(operands));
        let specs = self.call.output_specs().iter().enumerate();
        for ((number, spec), (sink, bytes)) in specs.zip(sinks) {
            let vector = match sink.as_ref().zip(bytes) {
                Some((sink, bytes)) => {
                    let pieces = place(sink.sink, bytes)?;
                    Some(PlacedVector { encoding: sink.encoding, pieces })
                }
                None => None,
            };
            let is_early = operands.early_listener(number).is_some();
            outputs.push(PlacedOutput { spec: *spec, vector, is_early });
        }
        let time_left = control.deadline().map(|at| at.saturating_duration_since(Instant::now()));
        let number = self.pool.next_run();
        let known = vec![0; operands.inputs.len()];
        debug!(run = number, device = worker.facts.index, "begins on a worker");
        let written = outputs.iter().filter_map(|output| output.vector.as_ref());
        let written: Vec<_> = written.flat_map(|vector| vector.pieces.iter().copied()).collect();
        let call = CallToRun {
            program: self.call.program.clone(),
            inputs: self.call.input_specs().to_vec(),
            outputs,
            objects,
            is_checked: self.call.is_checked,
            time_left,
            time_on_host_max: self.time_on_host_max,
        };
        let awaited = None;
        let is_in_place = false;
        let is_over = false;
        let outputs = self.placed_bytes(operands).map(OutputProgress::new).collect();
        let mut run =
            RemoteRun { worker, number, known, awaited, written, outputs, is_in_place, is_over };
        let mut arrived = Vec::new();
        for (input, given) in operands.inputs.iter().enumerate() {
            let bytes = given.spec.bytes();
            if given.source.has_received(0..bytes) {
                arrived.extend(run.arrived(input, given, bytes)?);
            }
        }
        let request =
            AdvanceRequest { run: number, begin: Some(call), arrived, yields: control.yields() };
        Ok(Begun::OnWorker(run, Box::new(request)))
    }

    /// The bytes of each output; `None` for points.
    fn placed_bytes(&self, operands: &RunOperands<'_>) -> impl Iterator<Item = Option<u64>> {
        let outputs = self.call.output_specs().iter().zip(operands.sinks);
        outputs.map(|(spec, sink)| {
            let width = sink.as_ref()?.encoding.width() as u64;
            Some(self.call.elements_of(spec.value) * width)
        })
    }

    /// Sends a request, and takes what the worker answers.
    fn advance(
        &mut self,
        mut run: RemoteRun,
        request: Box<AdvanceRequest>,
        operands: &RunOperands<'_>,
        control: &JobControl,
    ) -> Result<Option<RunReport>> {
        let worker = run.worker.clone();
        let share: BacklogShare<'_> = worker.add_to_backlog(self.plan.modelled.total);
        let expected = MODEL_TIMES * worker.backlog();
        let is_first = request.begin.is_some();
        let request = LaneRequest::Advance(request);
        let number = run.number;
        let outputs = &mut run.outputs;
        let suits = |outcome: LaneOutcome| outcome.into_advanced(&self.call, outputs);
        let reply = worker.request(&request, Some(number), control, expected, suits);
        drop(share);
        let outcome = match reply {
            Ok(outcome) => outcome,
            // A run that only waits there is not the cause.
            Err(RequestFailure::LostBefore) => {
                let may_have_written = run.is_in_place && !is_first;
                return self.begin_again(&worker, may_have_written).map(|()| None);
            }
            Err(RequestFailure::LostMeanwhile) => {
                self.count_loss()?;
                return self.begin_again(&worker, run.is_in_place).map(|()| None);
            }
            Err(RequestFailure::NotSent(error)) => return Err(error),
        };
        run.is_over = true;
        match outcome {
            Ok(Advanced { modelled_total, longest_step, written, early_sums, state }) => {
                let longest = ValueId(longest_step);
                self.plan.modelled = ModelledTime { total: modelled_total, longest };
                for part in written {
                    if let Some(Some(output)) = operands.sinks.get(part.output as usize) {
                        output.sink.mark_written(part.bytes);
                    }
                }
                for SumsOfOutput { output, sums } in early_sums {
                    if let Some(listener) = operands.early_listener(output as usize) {
                        listener(&sums);
                    }
                }
                match state {
                    RunState::Awaits(awaited) => {
                        run.is_over = false;
                        run.awaited = awaited.map(|AwaitedInput { input, elements }| {
                            AwaitedElements { input: input as usize, elements }
                        });
                        self.phase = WorkerRunPhase::OnWorker(run);
                        Ok(None)
                    }
                    RunState::Done(finished) => Ok(Some(*finished)),
                }
            }
            Err(failure) => {
                if failure == WorkerFailure::Engine(Error::Cancelled) {
                    // The deadline may be the reason.
                    control.check()?;
                }
                Err(failure.into_error(&self.call.program))
            }
        }
    }

    /// Notes that a worker was lost while it computed the run.
    ///
    /// Errors: `LostTwice` if it was not the first one.
    fn count_loss(&mut self) -> Result<()> {
        if self.losses.fetch_add(1, Ordering::Relaxed) + 1 >= LOSSES_MAX {
            let names = self.call.program.steps().iter().map(StepKind::name);
            let steps: Vec<_> = names.take(8).collect();
            warn!(?steps, "two workers were lost while they computed a call: the call is refused");
            return Err(Error::LostTwice);
        }
        Ok(())
    }

    /// Lets the run begin again after its worker was lost.
    ///
    /// Errors: `DeviceLost` if its inputs may be overwritten.
    fn begin_again(&mut self, lost: &LiveWorker, is_in_place: bool) -> Result<()> {
        let device = lost.facts.index;
        if is_in_place {
            warn!(
                device,
                "a worker was lost with a call that overwrites its inputs: it is refused"
            );
            return Err(Error::DeviceLost);
        }
        info!(device, reason = "its worker was lost", "a run begins again");
        telemetry::REPEATED_RUNS_TOTAL.add(1);
        self.phase = WorkerRunPhase::NotBegun;
        Ok(())
    }
}

/// What became of a run that begins.
enum Begun {
    OnWorker(RemoteRun, Box<AdvanceRequest>),
    OnHost,
    /// The worker was lost before it got the run.
    Lost(Arc<LiveWorker>),
}

impl RemoteRun {
    /// The bytes of an input up to byte `end` that the worker does not know of.
    fn arrived(
        &mut self,
        input: usize,
        given: &EncodedScalars<'_>,
        end: u64,
    ) -> Result<Option<ArrivedBytes>> {
        let Range { start, end } = self.known[input]..end;
        if start >= end {
            return Ok(None);
        }
        let pieces = given.source.shared_pieces(start..end);
        let pieces = pieces.ok_or_else(|| Error::Internal("an input is not shared".into()))?;
        self.known[input] = end;
        let overwrites = |read: &SharedPiece| self.written.iter().any(|to| to.overlaps(read));
        self.is_in_place |= pieces.iter().any(overwrites);
        Ok(Some(ArrivedBytes { input: input as u32, start, pieces }))
    }
}

fn place(sink: &dyn ByteSink, bytes: u64) -> Result<Vec<SharedPiece>> {
    let pieces = sink.place(0..bytes)?;
    pieces.ok_or_else(|| Error::Internal("an output is not shared".into()))
}

impl RunInProgress for WorkerRun {
    fn plan(&self) -> &ProgramPlan {
        &self.plan
    }

    fn limit_time_on_host(&mut self, max: Duration) {
        self.time_on_host_max = max;
    }

    /// `None` until the run has begun, since the worker decides what it reads first.
    fn awaited(&self) -> Option<AwaitedElements> {
        match &self.phase {
            WorkerRunPhase::OnWorker(run) => run.awaited.clone(),
            WorkerRunPhase::OnHost(run) => run.awaited(),
            WorkerRunPhase::NotBegun | WorkerRunPhase::Ended => None,
        }
    }

    fn step(
        &mut self,
        operands: &RunOperands<'_>,
        control: &JobControl,
    ) -> Result<Option<RunReport>> {
        control.check()?;
        let (run, request) = match std::mem::replace(&mut self.phase, WorkerRunPhase::Ended) {
            WorkerRunPhase::Ended => {
                return Err(Error::Internal("the run was stepped after its end".into()));
            }
            WorkerRunPhase::OnHost(mut run) => {
                let report = run.step(operands, control)?;
                self.phase = WorkerRunPhase::OnHost(run);
                return Ok(report);
            }
            WorkerRunPhase::NotBegun => match self.begin(operands, control)? {
                Begun::OnWorker(run, request) => (run, request),
                Begun::OnHost => return Ok(None),
                Begun::Lost(worker) => {
                    self.count_loss()?;
                    return self.begin_again(&worker, false).map(|()| None);
                }
            },
            WorkerRunPhase::OnWorker(mut run) => {
                let mut arrived = Vec::new();
                if let Some(AwaitedElements { input, elements }) = run.awaited.take() {
                    let given = &operands.inputs[input];
                    let end = elements.end * given.spec.encoding.width() as u64;
                    arrived.extend(run.arrived(input, given, end)?);
                }
                let number = run.number;
                let yields = control.yields();
                let request = AdvanceRequest { run: number, begin: None, arrived, yields };
                (run, Box::new(request))
            }
        };
        self.advance(run, request, operands, control)
    }
}
