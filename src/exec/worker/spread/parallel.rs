//! Parts of a call that run at the same time.

use std::{
    panic::resume_unwind,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use crate::{
    curve::points::Bases,
    engine::{ExecutedBy, JobControl, add_stages},
    error::{Error, FieldProblem, Result},
    exec::{
        AwaitedElements, OutputWrites, ProgramPlan, RunInProgress, RunOperands, RunReport,
        call::RunCall,
        worker::{pool::WorkerPool, run::WorkerRun, sent_bases::BasesScope},
    },
    program::ValueId,
};

/// The parts go on for this long before the server may run another job on the thread.
const TIME_SLICE: Duration = Duration::from_millis(10);
/// While a part waits for an answer, the others go on for longer, because all are joined.
const TIME_SLICE_MAX: Duration = Duration::from_millis(200);

/// A part of a call. `operands` are those of the whole call.
pub trait ConcurrentPart: Send {
    fn run(&mut self) -> &mut WorkerRun;

    fn is_done(&self) -> bool;

    /// Whether what the part reads next has arrived.
    fn has_next_elements(&self, operands: &RunOperands<'_>) -> bool;

    /// Advances the part's run by one step.
    fn step(&mut self, operands: &RunOperands<'_>, control: &JobControl) -> Result<()>;
}

/// How far a part has come that may refuse an element while others go on.
pub enum PartProgress {
    Running,
    Done(RunReport),
    Refused(PartRefusal),
}

/// An element of an input that a part refuses.
#[derive(Clone, Copy)]
pub struct PartRefusal {
    /// The step of the input.
    pub input: ValueId,
    /// The element's number within the input of the whole call.
    pub index: u64,
    pub problem: FieldProblem,
}

impl PartProgress {
    pub fn is_over(&self) -> bool {
        !matches!(self, Self::Running)
    }

    /// Errors: if the part is not done.
    pub fn into_report(self) -> Result<RunReport> {
        match self {
            Self::Done(report) => Ok(report),
            Self::Running | Self::Refused(_) => Err(not_begun()),
        }
    }
}

/// The error for the first element, of the first input, that a part has refused.
pub fn first_refusal<'a>(
    call: &RunCall,
    parts: impl Iterator<Item = &'a PartProgress>,
) -> Option<Error> {
    let refused = parts.filter_map(|progress| match progress {
        PartProgress::Refused(refused) => Some(*refused),
        PartProgress::Running | PartProgress::Done(_) => None,
    });
    let first = refused.min_by_key(|refused| (refused.input, refused.index))?;
    let error = Error::element("elements", first.index, first.problem);
    Some(call.name_element(first.input, error))
}

/// The elements that arrive first, of those that the running parts await; `None` if a part can go
/// on.
pub fn first_awaited(
    parts: impl Iterator<Item = Option<AwaitedElements>>,
) -> Option<AwaitedElements> {
    let mut first: Option<AwaitedElements> = None;
    for awaited in parts {
        let awaited = awaited?;
        let key = |awaited: &AwaitedElements| (awaited.input, awaited.elements.end);
        if first.as_ref().is_none_or(|first| key(&awaited) < key(first)) {
            first = Some(awaited);
        }
    }
    first
}

/// Whether these elements of the call's inputs have arrived.
pub fn has_received(awaited: &AwaitedElements, operands: &RunOperands<'_>) -> bool {
    operands.inputs.get(awaited.input).is_some_and(|input| {
        let (elements, width) = (&awaited.elements, input.encoding.width() as u64);
        input.source.has_received(elements.start * width..elements.end * width)
    })
}

/// The plan of parts that run at the same time: the memory of all, and the time of the longest.
/// `None` if there are no parts.
pub fn plan_of_all(parts: &[&ProgramPlan], writes: OutputWrites) -> Option<ProgramPlan> {
    let longest = parts.iter().max_by_key(|plan| plan.modelled.total)?;
    let largest = parts.iter().max_by_key(|plan| plan.memory_bytes)?.largest;
    let sum = |bytes: fn(&ProgramPlan) -> u64| {
        parts.iter().map(|plan| bytes(plan)).fold(0, u64::saturating_add)
    };
    Some(ProgramPlan {
        memory_bytes: sum(|plan| plan.memory_bytes),
        value_bytes: sum(|plan| plan.value_bytes),
        largest,
        modelled: longest.modelled,
        // A batch of MSMs is one run, on one GPU.
        msm_vectors: None,
        writes,
    })
}

/// Advances all parts whose elements have arrived, each on its own thread. True if all are done.
///
/// Errors: that of the first part that fails. The others are cancelled, and all parts are dropped.
pub fn advance<P: ConcurrentPart>(
    parts: &mut Vec<P>,
    operands: &RunOperands<'_>,
    control: &JobControl,
) -> Result<bool> {
    control.check()?;
    if let Err(error) = advance_ready(parts, operands, control) {
        // Ends what the workers still compute.
        parts.clear();
        return Err(error);
    }
    Ok(parts.iter().all(P::is_done))
}

fn advance_ready<P: ConcurrentPart>(
    parts: &mut [P],
    operands: &RunOperands<'_>,
    control: &JobControl,
) -> Result<()> {
    let is_ready = |part: &P| !part.is_done() && part.has_next_elements(operands);
    let mut ready: Vec<_> = parts.iter_mut().filter(|part| is_ready(part)).collect();
    let (begun, control) = (Instant::now(), control.child());
    let busy = AtomicUsize::new(ready.len());
    let advance = |part: &mut P| {
        let may_go_on = || match begun.elapsed() {
            time if time <= TIME_SLICE => true,
            time => time <= TIME_SLICE_MAX && busy.load(Ordering::Relaxed) > 1,
        };
        let mut advanced = Ok(());
        while advanced.is_ok() && is_ready(part) && may_go_on() {
            advanced = part.step(operands, &control);
        }
        busy.fetch_sub(1, Ordering::Relaxed);
        if advanced.is_err() {
            control.cancel();
        }
        advanced
    };
    let advance = &advance;
    let results: Vec<Result<()>> = thread::scope(|scope| {
        let own = ready.pop();
        let others: Vec<_> =
            ready.into_iter().map(|part| scope.spawn(move || advance(part))).collect();
        let own = own.map(advance);
        // All are joined before the first error is returned.
        let joined = others
            .into_iter()
            .map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        joined.chain(own).collect()
    });
    let mut errors = results.into_iter().filter_map(Result::err);
    let Some(first) = errors.next() else { return Ok(()) };
    // A part that was cancelled is not the cause.
    let cause = (first == Error::Cancelled).then(|| errors.find(|error| *error != first));
    Err(cause.flatten().unwrap_or(first))
}

/// Chooses a worker for each part. All parts use the same bases.
pub fn prefer_workers<P: ConcurrentPart>(pool: &WorkerPool, parts: &mut [P], bases: &[Bases]) {
    let of_parts = vec![bases; parts.len()];
    let workers = pool.choose_for_parts(&of_parts, BasesScope::WholeObject);
    parts.iter_mut().zip(workers).for_each(|(part, worker)| part.run().prefer(worker));
}

/// Limits the time of parts that would move to the host: each gets its share of `max`.
pub fn limit_time_on_host<P: ConcurrentPart>(parts: &mut [P], max: Duration) {
    let modelled = |part: &mut P| part.run().plan().modelled.total.as_secs_f64();
    let total: f64 = parts.iter_mut().map(modelled).sum();
    for part in parts {
        let share = modelled(part) / total;
        // Without a model, and without a limit, there is nothing to share.
        let of_part = Duration::try_from_secs_f64(max.as_secs_f64() * share).unwrap_or(max);
        part.run().limit_time_on_host(of_part);
    }
}

pub fn not_begun() -> Error {
    Error::Internal("the parts of a call were not begun, or have ended".into())
}

/// What computed the whole call: `gpu_engine` is the name of the engine that uses GPUs. The stages
/// are added; `None` if there are no reports.
pub fn executed_by(reports: &[RunReport], gpu_engine: &str) -> Option<ExecutedBy> {
    let on_gpu = |report: &&RunReport| report.executor.engine == gpu_engine;
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
