//! One MSM on several GPUs: each worker sums over a range of the points, and the sums are added. A
//! device holds and tables only its own range.

use std::{
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    parallel::{ConcurrentPart, TIME_SLICE, advance_ready, executed_by, not_begun},
    parts::{MsmPart, MsmRows, PartSource},
    target::SpreadTarget,
};
use crate::{
    buffer::ByteSource,
    curve::points::{Bases, MsmSums},
    engine::{EncodedScalars, EngineModel, JobControl},
    error::{Error, FieldProblem, Result},
    exec::{
        AwaitedElements, ProgramPlan, RunInProgress, RunOperands, RunReport,
        call::{OnlyStep, RunCall},
        worker::{pool::WorkerPool, run::WorkerRun, sent_bases::BasesScope},
    },
    ops::{Operation, SINGLE_STEP, single_msm},
    program::{InputSpec, OutputKind, OutputSpec, ValueId, VectorShape},
};

/// An MSM whose parts run on several workers at the same time.
pub struct SpreadMsm {
    pool: Arc<WorkerPool>,
    call: Arc<RunCall>,
    plan: ProgramPlan,
    /// The MSM step, and the step of its input.
    step: ValueId,
    input: ValueId,
    parts: Vec<RunningPart>,
    /// The name of the engine that uses GPUs.
    gpu_engine: &'static str,
}

struct RunningPart {
    part: MsmPart,
    run: WorkerRun,
    /// The part's bases, once the run has begun.
    bases: Option<Bases>,
    progress: PartProgress,
}

enum PartProgress {
    Running,
    Done(RunReport),
    /// For an element, numbered within the input of the whole call.
    Refused(u64, FieldProblem),
}

/// How an MSM is divided.
struct DividedMsm {
    parts: Vec<MsmPart>,
    /// The plan of the largest part.
    plan: ProgramPlan,
}

/// A run on as many GPUs as the policy allows, if `call` is one MSM.
pub fn divide(
    target: &SpreadTarget<'_>,
    call: &Arc<RunCall>,
    alone: &ProgramPlan,
    gpus_max: u64,
) -> Result<Option<SpreadMsm>> {
    let Some(OnlyStep { id: step, input: shape }) = call.only_step() else { return Ok(None) };
    let Operation::Msm(msm) = &call.program.steps()[step.index()] else { return Ok(None) };
    if shape.elements() < target.policy.scalars_min {
        return Ok(None);
    }
    for gpus in (2..=gpus_max.min(shape.length())).rev() {
        let divided = DividedMsm::new(target, call, step, shape, gpus)?;
        if target.allows(alone, &divided.plan, gpus) {
            return divided.into_run(target, call, step, msm.input).map(Some);
        }
    }
    Ok(None)
}

impl DividedMsm {
    fn new(
        target: &SpreadTarget<'_>,
        call: &RunCall,
        step: ValueId,
        shape: VectorShape,
        gpus: u64,
    ) -> Result<Self> {
        let rows = MsmRows { rows: shape.rows().into(), length: shape.length() };
        let parts = rows.parts(gpus);
        let largest = parts.iter().max_by_key(|part| part.count());
        let largest = largest.ok_or_else(|| Error::Internal("an MSM has no parts".into()))?;
        let plan = target.plan(&part_call(call, step, largest)?);
        Ok(Self { parts, plan })
    }

    fn into_run(
        self,
        target: &SpreadTarget<'_>,
        call: &Arc<RunCall>,
        step: ValueId,
        input: ValueId,
    ) -> Result<SpreadMsm> {
        let Self { parts, plan: of_part } = self;
        let mut plan = of_part.clone();
        plan.memory_bytes = plan.memory_bytes.saturating_mul(parts.len() as u64);
        plan.modelled.longest = step;
        // A batch is one run, on one GPU.
        plan.msm_vectors = None;
        let mut running = Vec::with_capacity(parts.len());
        for part in parts {
            let run = target.part(part_call(call, step, &part)?.into(), of_part.clone());
            running.push(RunningPart { part, run, bases: None, progress: PartProgress::Running });
        }
        let (pool, call) = (target.pool.clone(), call.clone());
        let gpu_engine = target.model.description().kind;
        Ok(SpreadMsm { pool, call, plan, step, input, parts: running, gpu_engine })
    }
}

/// The call of a part: a program of one MSM.
fn part_call(call: &RunCall, step: ValueId, part: &MsmPart) -> Result<RunCall> {
    let Operation::Msm(msm) = &call.program.steps()[step.index()] else {
        return Err(Error::Internal("the step is no MSM".into()));
    };
    let MsmRows { rows, length } = part.rows();
    let program = Arc::new(single_msm(msm.group, rows as usize, length as usize)?);
    let inputs = call.input_specs().iter();
    let inputs = inputs.map(|input| InputSpec { count: part.count(), ..*input });
    let output = OutputSpec { value: SINGLE_STEP, kind: OutputKind::Points };
    RunCall::new(program, &inputs.collect::<Vec<_>>(), &[output], call.is_checked)
}

impl RunningPart {
    fn is_running(&self) -> bool {
        matches!(self.progress, PartProgress::Running)
    }

    /// The part's range of the scalars of `input`.
    fn source<'a>(part: &'a MsmPart, input: &EncodedScalars<'a>) -> PartSource<'a> {
        PartSource { part, whole: input.source, width: input.encoding.width() as u64 }
    }

    fn reads_arrived(&self, input: &EncodedScalars<'_>) -> bool {
        let width = input.encoding.width() as u64;
        let source = Self::source(&self.part, input);
        let has = |AwaitedElements { elements: Range { start, end }, .. }| {
            source.has_received(start * width..end * width)
        };
        self.is_running() && self.run.awaited().is_none_or(has)
    }
}

impl ConcurrentPart for RunningPart {
    fn is_ready(&self, operands: &RunOperands<'_>) -> bool {
        operands.inputs.first().is_some_and(|input| self.reads_arrived(input))
    }

    /// A refused element is no error here: other parts may refuse an earlier one.
    fn advance(&mut self, operands: &RunOperands<'_>, control: &JobControl) -> Result<()> {
        let input = operands.inputs.first().ok_or_else(not_begun)?;
        let bases = self.bases.as_ref().ok_or_else(not_begun)?.clone();
        let part = self.part.clone();
        let source = Self::source(&part, input);
        let elements = EncodedScalars { count: part.count() as usize, source: &source, ..*input };
        let operands = RunOperands { inputs: &[elements], bases: &[bases], sinks: &[None] };
        let begun = Instant::now();
        while self.reads_arrived(input) && begun.elapsed() <= TIME_SLICE {
            match self.run.step(&operands, control) {
                Ok(None) => {}
                Ok(Some(report)) => self.progress = PartProgress::Done(report),
                Err(Error::Step { index: Some(index), problem, .. }) => {
                    let index = self.part.index_in_whole(index);
                    self.progress = PartProgress::Refused(index, problem);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl SpreadMsm {
    /// The error for the first element that a part has refused.
    fn refusal(&self) -> Option<Error> {
        let refused = self.parts.iter().filter_map(|part| match part.progress {
            PartProgress::Refused(index, problem) => Some((index, problem)),
            PartProgress::Running | PartProgress::Done(_) => None,
        });
        let (index, problem) = refused.min_by_key(|(index, _)| *index)?;
        let error = Error::element("elements", index, problem);
        Some(self.call.name_element(self.input, error))
    }

    /// The report of the whole run, after all parts. They ran at the same time, so the longest
    /// counts; only the stages are added.
    fn report(&mut self) -> Result<RunReport> {
        let modelled = self.parts.iter().map(|part| part.run.plan().modelled.total);
        self.plan.modelled.total = modelled.max().ok_or_else(not_begun)?;
        let done = self.parts.drain(..).map(|part| match part.progress {
            PartProgress::Done(report) => Ok(report),
            PartProgress::Running | PartProgress::Refused(..) => Err(not_begun()),
        });
        let reports = done.collect::<Result<Vec<_>>>()?;
        let executor = executed_by(&reports, self.gpu_engine).ok_or_else(not_begun)?;
        let mut whole = self.call.new_report(executor.engine, executor.device.clone());
        let step = &mut whole.steps[self.step.index()];
        step.method.clone_from(&executor.device);
        whole.executor = executor;
        let mut sums: Option<MsmSums> = None;
        for report in reports {
            let own = &report.steps[SINGLE_STEP.index()];
            step.duration = step.duration.max(own.duration);
            step.verify_time = step.verify_time.max(own.verify_time);
            step.verified = own.verified;
            let part = report.points.into_iter().flatten().next();
            sums = match (sums, part) {
                (None, part) => part,
                (Some(sums), part) => part.and_then(|part| sums.plus(&part)),
            };
            if sums.is_none() {
                return Err(Error::Internal("a part of an MSM lacks sums".into()));
            }
        }
        whole.points = vec![sums];
        Ok(whole)
    }
}

impl RunInProgress for SpreadMsm {
    fn plan(&self) -> &ProgramPlan {
        &self.plan
    }

    /// If no GPU serves, the host runs all parts, one after another.
    fn limit_time_on_host(&mut self, max: Duration) {
        let of_part = max / u32::try_from(self.parts.len()).unwrap_or(u32::MAX).max(1);
        self.parts.iter_mut().for_each(|part| part.run.limit_time_on_host(of_part));
    }

    fn begin(&mut self, bases: &[Bases]) -> Result<()> {
        let missing = || Error::Internal("the step's bases are missing".into());
        let all = self.call.bases(self.step, bases).ok_or_else(missing)?;
        let slice = |part: &RunningPart| {
            let start = part.part.points.start as usize;
            all.slice(start, part.part.rows().length as usize).ok_or_else(missing)
        };
        let of_parts = self.parts.iter().map(slice).collect::<Result<Vec<_>>>()?;
        let scope = BasesScope::OwnRange;
        let workers = self.pool.choose_for_parts(&of_parts, scope);
        for (part, bases) in self.parts.iter_mut().zip(of_parts) {
            part.bases = Some(bases);
            part.run.use_bases(scope);
        }
        for (part, worker) in self.parts.iter_mut().zip(workers) {
            part.run.prefer(worker);
        }
        Ok(())
    }

    /// The elements that arrive first, if those of all parts arrive in order.
    fn awaited(&self) -> Option<AwaitedElements> {
        let mut first: Option<Range<u64>> = None;
        for RunningPart { part, run, .. } in self.parts.iter().filter(|part| part.is_running()) {
            let elements = part.span_in_whole(&run.awaited()?.elements);
            if first.as_ref().is_none_or(|first| elements.end < first.end) {
                first = Some(elements);
            }
        }
        first.map(|elements| AwaitedElements { input: 0, elements })
    }

    fn step(
        &mut self,
        operands: &RunOperands<'_>,
        control: &JobControl,
    ) -> Result<Option<RunReport>> {
        control.check()?;
        if let Err(error) = advance_ready(&mut self.parts, operands, control) {
            // Ends what the workers still compute.
            self.parts.clear();
            return Err(error);
        }
        if self.parts.iter().any(RunningPart::is_running) {
            return Ok(None);
        }
        match self.refusal() {
            Some(refusal) => Err(refusal),
            None => self.report().map(Some),
        }
    }
}
