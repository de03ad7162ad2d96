//! One MSM on several GPUs: each worker sums over a range of the points, and the sums are added. A
//! device holds and tables only its own range.

use std::{ops::Range, slice, sync::Arc, time::Duration};

use super::{
    parallel::{self, ConcurrentPart, PartProgress, PartRefusal, executed_by, not_begun},
    parts::{MsmPart, MsmRows, PartSource},
    target::SpreadTarget,
};
use crate::{
    buffer::ByteSource,
    curve::points::{Bases, MsmSums},
    engine::{EncodedScalars, EngineModel, JobControl},
    error::{Error, Result},
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
    /// The MSM step.
    step: ValueId,
    parts: Vec<RunningPart>,
    /// The name of the engine that uses GPUs.
    gpu_engine: &'static str,
}

struct RunningPart {
    part: MsmPart,
    /// The step of the whole call's input.
    input: ValueId,
    run: WorkerRun,
    /// The part's bases, once the run has begun.
    bases: Option<Bases>,
    progress: PartProgress,
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
        if !target.are_idle(gpus, alone) {
            continue;
        }
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
        plan.largest = step;
        plan.modelled.longest = step;
        // A batch is one run, on one GPU.
        plan.msm_vectors = None;
        let (losses, mut running) = (Arc::default(), Vec::with_capacity(parts.len()));
        for part in parts {
            let own = part_call(call, step, &part)?;
            let run = target.part(own.into(), of_part.clone(), &losses);
            let progress = PartProgress::Running;
            running.push(RunningPart { part, input, run, bases: None, progress });
        }
        let (pool, call) = (target.pool.clone(), call.clone());
        let gpu_engine = target.model.description().kind;
        Ok(SpreadMsm { pool, call, plan, step, parts: running, gpu_engine })
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
    /// The part's range of the scalars of `input`.
    fn source<'a>(part: &'a MsmPart, input: &EncodedScalars<'a>) -> PartSource<'a> {
        PartSource { part, whole: input.source, width: input.encoding.width() as u64 }
    }
}

impl ConcurrentPart for RunningPart {
    fn run(&mut self) -> &mut WorkerRun {
        &mut self.run
    }

    fn is_done(&self) -> bool {
        self.progress.is_over()
    }

    fn has_next_elements(&self, operands: &RunOperands<'_>) -> bool {
        let Some(input) = operands.inputs.first() else { return false };
        let (width, source) = (input.encoding.width() as u64, Self::source(&self.part, input));
        let has = |AwaitedElements { elements: Range { start, end }, .. }| {
            source.has_received(start * width..end * width)
        };
        self.run.awaited().is_none_or(has)
    }

    /// A refused element is no error here: other parts may refuse an earlier one.
    fn step(&mut self, operands: &RunOperands<'_>, control: &JobControl) -> Result<()> {
        let input = operands.inputs.first().ok_or_else(not_begun)?;
        let bases = [self.bases.clone().ok_or_else(not_begun)?];
        let source = Self::source(&self.part, input);
        let count = self.part.count() as usize;
        let inputs = [EncodedScalars { count, source: &source, ..*input }];
        let operands =
            RunOperands { inputs: &inputs, bases: &bases, sinks: &[None], ..Default::default() };
        match self.run.step(&operands, control) {
            Ok(None) => {}
            Ok(Some(report)) => self.progress = PartProgress::Done(report),
            Err(Error::Step { index: Some(index), problem, .. }) => {
                let (input, index) = (self.input, self.part.index_in_whole(index));
                self.progress = PartProgress::Refused(PartRefusal { input, index, problem });
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

impl SpreadMsm {
    /// The report of the whole run, after all parts. They ran at the same time, so the longest
    /// counts; only the stages are added.
    fn report(&mut self) -> Result<RunReport> {
        let modelled = self.parts.iter().map(|part| part.run.plan().modelled.total);
        self.plan.modelled.total = modelled.max().ok_or_else(not_begun)?;
        let done = self.parts.drain(..).map(|part| part.progress.into_report());
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

    fn limit_time_on_host(&mut self, max: Duration) {
        parallel::limit_time_on_host(&mut self.parts, max);
    }

    fn begin(&mut self, bases: &[Bases]) -> Result<()> {
        let missing = || Error::Internal("the step's bases are missing".into());
        let all = self.call.bases(self.step, bases).ok_or_else(missing)?;
        let range = |part: &RunningPart| {
            let start = part.part.points.start as usize;
            all.slice(start, part.part.rows().length as usize).ok_or_else(missing)
        };
        let of_parts = self.parts.iter().map(range).collect::<Result<Vec<_>>>()?;
        let each: Vec<_> = of_parts.iter().map(slice::from_ref).collect();
        let scope = BasesScope::OwnRange;
        let workers = self.pool.choose_for_parts(&each, scope);
        for (part, bases) in self.parts.iter_mut().zip(of_parts) {
            part.bases = Some(bases);
            part.run.use_bases(scope);
        }
        self.parts.iter_mut().zip(workers).for_each(|(part, worker)| part.run.prefer(worker));
        Ok(())
    }

    /// Of the elements that parts await, those that end first in the input; `None` if a part can go
    /// on.
    fn awaited(&self) -> Option<AwaitedElements> {
        let mut first: Option<Range<u64>> = None;
        for RunningPart { part, run, .. } in self.parts.iter().filter(|part| !part.is_done()) {
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
        if !parallel::advance(&mut self.parts, operands, control)? {
            return Ok(None);
        }
        let progress = self.parts.iter().map(|part| &part.progress);
        match parallel::first_refusal(&self.call, progress) {
            Some(refusal) => Err(refusal),
            None => self.report().map(Some),
        }
    }
}
