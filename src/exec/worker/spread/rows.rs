//! A program on several GPUs by rows: if each row of every value depends on the same row of the
//! inputs only, each worker runs all steps on a range of the rows.

use std::{ops::Range, sync::Arc, time::Duration};

use super::{
    parallel::{self, ConcurrentPart, PartProgress, PartRefusal, executed_by, not_begun},
    target::SpreadTarget,
};
use crate::{
    buffer::Shifted,
    curve::points::Bases,
    engine::{EncodedScalars, EngineModel, JobControl},
    error::{Error, Result, StepField},
    exec::{
        AwaitedElements, ElementSink, OutputWrites, ProgramPlan, RunInProgress, RunOperands,
        RunReport,
        call::RunCall,
        worker::{pool::WorkerPool, run::WorkerRun},
    },
    ops::{InputStep, Operation, OperationProgram},
    program::{InputSpec, StepKind, ValueId},
    verify::Verification,
};

/// A program whose rows are computed by several workers at the same time.
pub struct SpreadRows {
    pool: Arc<WorkerPool>,
    call: Arc<RunCall>,
    plan: ProgramPlan,
    parts: Vec<PartOfRows>,
    /// The name of the engine that uses GPUs.
    gpu_engine: &'static str,
}

struct PartOfRows {
    rows: PartRows,
    whole: Arc<RunCall>,
    run: WorkerRun,
    progress: PartProgress,
}

/// A range of the rows of each vector.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PartRows {
    rows: Range<u64>,
    /// The number of rows of a whole vector.
    all: u64,
}

/// A run on as many GPUs as the policy allows, if `call` can be divided by rows.
pub fn divide(
    target: &SpreadTarget<'_>,
    call: &Arc<RunCall>,
    alone: &ProgramPlan,
    gpus_max: u64,
) -> Result<Option<SpreadRows>> {
    if alone.modelled.total < target.policy.program_time_min {
        return Ok(None);
    }
    let Some(rows) = independent_rows(call) else { return Ok(None) };
    for gpus in (2..=gpus_max.min(rows)).rev() {
        if !target.are_idle(gpus, alone) {
            continue;
        }
        let mut parts = Vec::with_capacity(gpus as usize);
        for rows in PartRows::divide(rows, gpus) {
            let call = Arc::new(part_call(call, &rows)?);
            let plan = target.plan(&call);
            parts.push((rows, call, plan));
        }
        let plans: Vec<_> = parts.iter().map(|(_, _, plan)| plan).collect();
        // Each part writes rows that only it reads.
        let Some(plan) = parallel::plan_of_all(&plans, OutputWrites::RowByRow) else { continue };
        if !target.allows(alone, &plan, gpus) {
            continue;
        }
        let losses = Arc::default();
        let parts = parts.into_iter().map(|(rows, part, plan)| {
            let run = target.part(part, plan, &losses);
            PartOfRows { rows, whole: call.clone(), run, progress: PartProgress::Running }
        });
        let gpu_engine = target.model.description().kind;
        let (pool, call, parts) = (target.pool.clone(), call.clone(), parts.collect());
        return Ok(Some(SpreadRows { pool, call, plan, parts, gpu_engine }));
    }
    Ok(None)
}

/// The number of rows of all values, if no step reads several rows of an input.
fn independent_rows(call: &RunCall) -> Option<u64> {
    let mut rows = None;
    for step in call.program.steps() {
        match step {
            Operation::Input(input) if rows.is_none_or(|rows| rows == input.rows) => {
                rows = Some(input.rows);
            }
            step if step.is_row_by_row() => {}
            _ => return None,
        }
    }
    rows.map(u64::from)
}

/// The call of a part: the same steps for fewer rows.
fn part_call(call: &RunCall, rows: &PartRows) -> Result<RunCall> {
    let of_part = |step: &Operation| match step {
        Operation::Input(input) => InputStep { rows: rows.len() as u32, ..input.clone() }.into(),
        step => step.clone(),
    };
    let steps = call.program.steps().iter().map(of_part).collect();
    let inputs = call.input_specs().iter();
    let inputs = inputs.map(|spec| InputSpec { count: rows.count_of(spec.count), ..*spec });
    let program = Arc::new(OperationProgram::new(steps)?);
    RunCall::new(program, &inputs.collect::<Vec<_>>(), call.output_specs(), call.is_checked)
}

impl PartRows {
    /// Parts of almost equal size: their number of rows differs by at most one.
    fn divide(all: u64, parts: u64) -> impl Iterator<Item = Self> {
        let start = move |part| all * part / parts;
        (0..parts).map(move |part| Self { rows: start(part)..start(part + 1), all })
    }

    fn len(&self) -> u64 {
        self.rows.end - self.rows.start
    }

    /// The elements of the part, of a vector of `count` elements.
    fn count_of(&self, count: u64) -> u64 {
        count / self.all * self.len()
    }

    /// The first element of the part, of a vector of `count` elements.
    fn first_of(&self, count: u64) -> u64 {
        count / self.all * self.rows.start
    }
}

impl PartOfRows {
    /// The elements of the whole call that the part needs next.
    fn awaited(&self) -> Option<AwaitedElements> {
        let AwaitedElements { input, elements: Range { start, end } } = self.run.awaited()?;
        let first = self.rows.first_of(self.whole.input_specs().get(input)?.count);
        Some(AwaitedElements { input, elements: first + start..first + end })
    }

    /// What is refused, if the error is about an element of an input.
    fn refused_element(&self, error: &Error) -> Option<PartRefusal> {
        let Error::Step { field: StepField { step, .. }, index: Some(index), problem } = error
        else {
            return None;
        };
        let input = ValueId(*step);
        let number = self.whole.is_input(input).then(|| self.whole.input_number(input))??;
        let first = self.rows.first_of(self.whole.input_specs()[number].count);
        Some(PartRefusal { input, index: first + index, problem: *problem })
    }
}

impl ConcurrentPart for PartOfRows {
    fn run(&mut self) -> &mut WorkerRun {
        &mut self.run
    }

    fn is_done(&self) -> bool {
        self.progress.is_over()
    }

    fn has_next_elements(&self, operands: &RunOperands<'_>) -> bool {
        self.awaited().is_none_or(|awaited| parallel::has_received(&awaited, operands))
    }

    /// A refused element is no error here: other parts may refuse an earlier one.
    fn step(&mut self, operands: &RunOperands<'_>, control: &JobControl) -> Result<()> {
        let first_byte = |count, width: usize| self.rows.first_of(count) * width as u64;
        let sources = operands.inputs.iter().map(|input| {
            let start = first_byte(input.count as u64, input.encoding.width());
            Shifted { all: input.source, start }
        });
        let sources: Vec<_> = sources.collect();
        let inputs = operands.inputs.iter().zip(&sources).map(|(input, source)| {
            let count = self.rows.count_of(input.count as u64) as usize;
            EncodedScalars { count, source, ..*input }
        });
        let inputs: Vec<_> = inputs.collect();
        let specs = self.whole.output_specs().iter();
        let sinks = specs.zip(operands.sinks).map(|(spec, sink)| {
            let ElementSink { encoding, sink } = (*sink)?;
            let start = first_byte(self.whole.elements_of(spec.value), encoding.width());
            Some((encoding, Shifted { all: sink, start }))
        });
        let sinks: Vec<_> = sinks.collect();
        let sinks = sinks.iter().map(|sink| {
            let (encoding, sink) = sink.as_ref()?;
            Some(ElementSink { encoding: *encoding, sink })
        });
        let sinks: Vec<_> = sinks.collect();
        let own = RunOperands { inputs: &inputs, sinks: &sinks, ..*operands };
        match self.run.step(&own, control) {
            Ok(None) => {}
            Ok(Some(report)) => self.progress = PartProgress::Done(report),
            Err(error) => match self.refused_element(&error) {
                Some(refused) => self.progress = PartProgress::Refused(refused),
                None => return Err(error),
            },
        }
        Ok(())
    }
}

impl SpreadRows {
    /// The refusal of an element before all those that may still be refused: of one input, later
    /// parts have later elements.
    fn refusal(&self) -> Option<Error> {
        let over = self.parts.iter().take_while(|part| part.is_done()).count();
        let is_known = self.call.input_count() == 1 || over == self.parts.len();
        let known = self.parts[..over].iter().filter(|_| is_known);
        parallel::first_refusal(&self.call, known.map(|part| &part.progress))
    }

    /// The report of the whole run, after all parts. They ran at the same time, so the longest
    /// counts; only the stages are added.
    fn report(&mut self) -> Result<RunReport> {
        let plans: Vec<_> = self.parts.iter().map(|part| part.run.plan()).collect();
        let longest = parallel::plan_of_all(&plans, self.plan.writes).ok_or_else(not_begun)?;
        self.plan.modelled = longest.modelled;
        let done = self.parts.drain(..).map(|part| part.progress.into_report());
        let reports = done.collect::<Result<Vec<_>>>()?;
        let executor = executed_by(&reports, self.gpu_engine).ok_or_else(not_begun)?;
        let mut whole = self.call.new_report(executor.engine, executor.device.clone());
        whole.executor = executor;
        for (part, report) in reports.into_iter().enumerate() {
            for (step, own) in whole.steps.iter_mut().zip(report.steps) {
                step.duration = step.duration.max(own.duration);
                step.verify_time = step.verify_time.max(own.verify_time);
                // A value is checked if all of its rows are.
                if part == 0 || own.verified == Verification::None {
                    step.verified = own.verified;
                }
                if step.method.is_empty() {
                    step.method = own.method;
                }
            }
        }
        Ok(whole)
    }
}

impl RunInProgress for SpreadRows {
    fn plan(&self) -> &ProgramPlan {
        &self.plan
    }

    fn limit_time_on_host(&mut self, max: Duration) {
        parallel::limit_time_on_host(&mut self.parts, max);
    }

    fn begin(&mut self, bases: &[Bases]) -> Result<()> {
        parallel::prefer_workers(&self.pool, &mut self.parts, bases);
        Ok(())
    }

    /// `None` if a part can go on; otherwise the awaited elements of the first input.
    fn awaited(&self) -> Option<AwaitedElements> {
        let running = self.parts.iter().filter(|part| !part.is_done());
        parallel::first_awaited(running.map(PartOfRows::awaited))
    }

    fn step(
        &mut self,
        operands: &RunOperands<'_>,
        control: &JobControl,
    ) -> Result<Option<RunReport>> {
        let are_over = parallel::advance(&mut self.parts, operands, control)?;
        if let Some(refusal) = self.refusal() {
            // Ends what the workers still compute.
            self.parts.clear();
            return Err(refusal);
        }
        are_over.then(|| self.report()).transpose()
    }
}
