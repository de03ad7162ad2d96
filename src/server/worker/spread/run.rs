//! A call whose parts run at the same time, each on a worker.

use std::{cmp::Reverse, ops::Range, sync::Arc, time::Duration};

use super::{
    parallel::{self, ConcurrentPart},
    target::SpreadTarget,
};
use crate::{
    curve::points::Bases,
    engine::{EngineModel as _, ExecutedBy, JobControl, add_stages},
    error::{EngineError as Error, EngineResult as Result, FieldPath, InputError, StepField},
    exec::{
        AwaitedElements, OutputWrites, ProgramPlan, RunCall, RunInProgress, RunOperands, RunReport,
    },
    program::ValueId,
    worker::{pool::WorkerPool, run::WorkerRun, sent_objects::BasesScope},
};

/// What one GPU computes of a call that is divided.
pub trait CallPart: Send {
    /// Which points of its bases a worker maps.
    const SCOPE: BasesScope = BasesScope::WholeObject;
    /// When the whole run writes to an output that lies in the same memory as an input.
    const WRITES: OutputWrites;

    /// The bases that the part uses, of those of the whole call.
    fn bases(&self, _whole: &RunCall, all: &[Bases]) -> Result<Vec<Bases>> {
        Ok(all.to_vec())
    }

    /// Calls `act` with what the part reads and writes, of `operands` of the whole call.
    fn with_operands<T>(
        &self,
        whole: &RunCall,
        operands: &RunOperands<'_>,
        act: impl FnOnce(&RunOperands<'_>) -> T,
    ) -> T;

    /// The elements of the whole call from the first to the last of these elements of the part.
    fn span_in_whole(&self, whole: &RunCall, elements: AwaitedElements) -> AwaitedElements;

    /// The step of the whole call that step `own` of the part is a part of.
    fn step_in_whole(&self, own: ValueId) -> ValueId {
        own
    }

    /// Adds the part's report to that of the whole call.
    fn add_to(&self, whole: &mut RunReport, report: RunReport) -> Result<()>;
}

/// A part and the call that its worker gets.
pub struct PlannedPart<P> {
    pub part: P,
    pub call: Arc<RunCall>,
    pub plan: ProgramPlan,
}

/// A call whose parts run on several workers at the same time.
pub struct SpreadRun<P> {
    pool: Arc<WorkerPool>,
    call: Arc<RunCall>,
    plan: ProgramPlan,
    parts: Vec<RunningPart<P>>,
    /// The name of the engine that uses GPUs.
    gpu_engine: &'static str,
}

struct RunningPart<P> {
    part: P,
    whole: Arc<RunCall>,
    /// The call of the part.
    own: Arc<RunCall>,
    run: WorkerRun,
    /// The part's bases, once the run has begun.
    bases: Vec<Bases>,
    progress: PartProgress,
}

enum PartProgress {
    Running,
    Done(RunReport),
    Refused(PartRefusal),
}

/// An element that a part refuses.
struct PartRefusal {
    at: RefusalPosition,
    error: Error,
}

/// Orders the elements of a call: a run on one GPU refuses the first one that is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct RefusalPosition {
    /// The step of the whole call that refuses the element.
    step: ValueId,
    /// The element's number in the whole call.
    index: u64,
}

impl<P: CallPart> SpreadRun<P> {
    /// A run on as many GPUs as the policy allows. `plan_parts` divides the call among a number of
    /// GPUs.
    pub fn divide(
        target: &SpreadTarget<'_>,
        call: &Arc<RunCall>,
        alone: &ProgramPlan,
        gpus_max: u64,
        plan_parts: impl Fn(u64) -> Result<Vec<PlannedPart<P>>>,
    ) -> Result<Option<Self>> {
        for gpus in (2..=gpus_max).rev() {
            if !target.are_idle(gpus, alone) {
                continue;
            }
            let parts = plan_parts(gpus)?;
            let plan = plan_of_all(parts.iter().map(|planned| (&planned.part, &planned.plan)))?;
            if !target.allows(alone, &plan, gpus) {
                continue;
            }
            let losses = Arc::default();
            let begun = |PlannedPart { part, call: own, plan }| {
                let run = target.part(Arc::clone(&own), plan, &losses);
                let bases = Vec::new();
                let progress = PartProgress::Running;
                RunningPart { part, whole: call.clone(), own, run, bases, progress }
            };
            let pool = target.pool.clone();
            let parts = parts.into_iter().map(begun).collect();
            let call = call.clone();
            let gpu_engine = target.model.description().kind;
            return Ok(Some(Self { pool, call, plan, parts, gpu_engine }));
        }
        Ok(None)
    }

    /// Drops the parts that can no longer change which element the call refuses, once a part has
    /// refused one. That ends what their workers still compute.
    fn drop_needless_parts(&mut self) {
        let refused = self.parts.iter().filter_map(|part| Some(part.refusal()?.at)).min();
        let Some(first) = refused else { return };
        self.parts.retain(|part| match &part.progress {
            PartProgress::Running => part.first_position().is_some_and(|at| at < first),
            PartProgress::Done(_) => false,
            PartProgress::Refused(refusal) => refusal.at == first,
        });
    }

    /// The report of the whole run, after all parts. They ran at the same time, so the longest
    /// counts; only the stages are added.
    ///
    /// Errors: that of the refused element.
    fn report(&mut self) -> Result<RunReport> {
        let plans = self.parts.iter().map(|part| (&part.part, part.run.plan()));
        self.plan.modelled = plan_of_all(plans)?.modelled;
        let done = self.parts.drain(..).map(|part| match part.progress {
            PartProgress::Done(report) => Ok((part.part, report)),
            PartProgress::Refused(refusal) => Err(refusal.error),
            PartProgress::Running => Err(not_begun()),
        });
        let done = done.collect::<Result<Vec<_>>>()?;
        let reports: Vec<_> = done.iter().map(|(_, report)| report).collect();
        let executor = executed_by(&reports, self.gpu_engine).ok_or_else(not_begun)?;
        let mut whole = self.call.new_report(executor.engine, executor.device.clone());
        whole.executor = executor;
        for (part, report) in done {
            part.add_to(&mut whole, report)?;
        }
        Ok(whole)
    }
}

impl<P: CallPart> RunningPart<P> {
    /// The elements of the whole call that the part needs next.
    fn awaited(&self) -> Option<AwaitedElements> {
        Some(self.part.span_in_whole(&self.whole, self.run.awaited()?))
    }

    fn refusal(&self) -> Option<&PartRefusal> {
        match &self.progress {
            PartProgress::Refused(refusal) => Some(refusal),
            PartProgress::Running | PartProgress::Done(_) => None,
        }
    }

    /// Where the whole call refuses element `index` that step `id` of the part's call reads, if
    /// that is invalid.
    fn position(&self, id: ValueId, index: u64) -> RefusalPosition {
        let step = self.part.step_in_whole(id);
        let Some(input) = self.own.input_number(id) else { return RefusalPosition { step, index } };
        let elements = AwaitedElements { input, elements: index..index + 1 };
        let elements = self.part.span_in_whole(&self.whole, elements).elements;
        // Another part may need the input for an earlier step.
        let step = self.whole.first_reader(input).unwrap_or(step);
        RefusalPosition { step, index: elements.start }
    }

    /// The first position that the part may refuse.
    fn first_position(&self) -> Option<RefusalPosition> {
        self.own.ids_to_run().map(|id| self.position(id, 0)).min()
    }

    /// The refusal of an element, in terms of the whole call; another error as it is.
    fn in_whole(&self, error: Error) -> Result<PartRefusal> {
        let Error::Input(InputError::Invalid {
            path: FieldPath::Step(field),
            index: Some(index),
            problem,
        }) = error
        else {
            return Err(error);
        };
        let own = ValueId(field.step);
        let step = self.part.step_in_whole(ValueId(field.step));
        let at = self.position(own, index);
        let path = FieldPath::Step(StepField { step: step.0, ..field });
        let error = InputError::Invalid { path, index: Some(at.index), problem };
        Ok(PartRefusal { at, error: error.into() })
    }
}

impl<P: CallPart> ConcurrentPart for RunningPart<P> {
    fn is_over(&self) -> bool {
        !matches!(self.progress, PartProgress::Running)
    }

    fn has_next_elements(&self, operands: &RunOperands<'_>) -> bool {
        let Some(AwaitedElements { input, elements }) = self.run.awaited() else { return true };
        self.part.with_operands(&self.whole, operands, |own| {
            own.inputs.get(input).is_some_and(|input| {
                let Range { start, end } = &elements;
                let width = input.spec.encoding.width() as u64;
                input.source.has_received(start * width..end * width)
            })
        })
    }

    /// A refused element is no error here: other parts may refuse an earlier one.
    fn step(&mut self, operands: &RunOperands<'_>, control: &JobControl) -> Result<()> {
        let Self { part, whole, run, bases, .. } = self;
        let stepped = part.with_operands(whole, operands, |own| {
            let own = RunOperands { bases, ..*own };
            let report = run.step(&own, control)?;
            // The other parts may go on for longer.
            let points = report.iter().flat_map(|report| &report.points);
            for (output, sums) in points.enumerate() {
                if let (Some(sums), Some(listener)) = (sums, own.early_listener(output)) {
                    listener(sums);
                }
            }
            Ok(report)
        });
        match stepped {
            Ok(None) => {}
            Ok(Some(report)) => self.progress = PartProgress::Done(report),
            Err(error) => self.progress = PartProgress::Refused(self.in_whole(error)?),
        }
        Ok(())
    }
}

impl<P: CallPart> RunInProgress for SpreadRun<P> {
    fn plan(&self) -> &ProgramPlan {
        &self.plan
    }

    /// Each part gets its share of `max`.
    fn limit_time_on_host(&mut self, max: Duration) {
        let modelled = |run: &WorkerRun| run.plan().modelled.total.as_secs_f64();
        let total: f64 = self.parts.iter().map(|part| modelled(&part.run)).sum();
        for RunningPart { run, .. } in &mut self.parts {
            let share = modelled(run) / total;
            // Without a model, and without a limit, there is nothing to share.
            let of_part = Duration::try_from_secs_f64(max.as_secs_f64() * share).unwrap_or(max);
            run.limit_time_on_host(of_part);
        }
    }

    /// Chooses a worker for each part.
    fn begin(&mut self, bases: &[Bases]) -> Result<()> {
        for RunningPart { part, whole, run, bases: of_part, .. } in &mut self.parts {
            *of_part = part.bases(whole, bases)?;
            run.use_bases(P::SCOPE);
        }
        let of_parts: Vec<_> = self.parts.iter().map(|part| &part.bases[..]).collect();
        let workers = self.pool.choose_for_parts(&of_parts, P::SCOPE);
        self.parts.iter_mut().zip(workers).for_each(|(part, worker)| part.run.prefer(worker));
        Ok(())
    }

    /// The elements that arrive first, of those that the running parts await; `None` if a part can
    /// go on.
    fn awaited(&self) -> Option<AwaitedElements> {
        let running = self.parts.iter().filter(|part| !part.is_over());
        let awaited = running.map(RunningPart::awaited).collect::<Option<Vec<_>>>()?;
        awaited.into_iter().min_by_key(|awaited| (awaited.input, awaited.elements.end))
    }

    fn step(
        &mut self,
        operands: &RunOperands<'_>,
        control: &JobControl,
    ) -> Result<Option<RunReport>> {
        control.check()?;
        if let Err(error) = parallel::advance(&mut self.parts, operands, control) {
            // Ends what the workers still compute.
            self.parts.clear();
            return Err(error);
        }
        self.drop_needless_parts();
        let are_over = self.parts.iter().all(RunningPart::is_over);
        are_over.then(|| self.report()).transpose()
    }
}

/// The plan of parts that run at the same time: the memory of all, and the time of the longest.
fn plan_of_all<'a, P: CallPart + 'a>(
    parts: impl Iterator<Item = (&'a P, &'a ProgramPlan)>,
) -> Result<ProgramPlan> {
    let mut parts: Vec<_> = parts.collect();
    // Stable: the first of the longest.
    parts.sort_by_key(|(_, plan)| Reverse(plan.modelled.total));
    let &(part, longest) = parts.first().ok_or_else(not_begun)?;
    let &(larger, most) =
        parts.iter().max_by_key(|(_, plan)| plan.memory_bytes).ok_or_else(not_begun)?;
    let sum = |bytes: fn(&ProgramPlan) -> u64| {
        parts.iter().map(|(_, plan)| bytes(plan)).fold(0, u64::saturating_add)
    };
    let mut modelled = longest.modelled;
    modelled.longest = part.step_in_whole(modelled.longest);
    Ok(ProgramPlan {
        memory_bytes: sum(|plan| plan.memory_bytes),
        value_bytes: sum(|plan| plan.value_bytes),
        largest: larger.step_in_whole(most.largest),
        modelled,
        // A batch of MSMs is one run, on one GPU.
        msm_vectors: None,
        writes: P::WRITES,
    })
}

pub fn not_begun() -> Error {
    Error::Internal("the parts of a call were not begun, or have ended".into())
}

/// What computed the whole call: `gpu_engine` is the name of the engine that uses GPUs. The stages
/// are added; `None` if there are no reports.
fn executed_by(reports: &[&RunReport], gpu_engine: &str) -> Option<ExecutedBy> {
    let on_gpu = |report: &&&RunReport| report.executor.engine == gpu_engine;
    let gpus = reports.iter().filter(on_gpu).count();
    let shown = &reports.iter().find(on_gpu).or(reports.first())?.executor;
    let device = match gpus {
        0 | 1 => shown.device.clone(),
        _ => format!("{gpus} GPUs: {}", shown.device),
    };
    let checked_on_device = reports.iter().all(|report| report.executor.checked_on_device);
    let mut stages = Vec::new();
    reports.iter().for_each(|report| add_stages(&mut stages, &report.executor.stages));
    Some(ExecutedBy { engine: shown.engine, device, stages, checked_on_device })
}
