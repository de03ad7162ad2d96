//! A program on several GPUs by rows: if each row of every value depends on the same row of the
//! inputs only, each worker runs all steps on a range of the rows.

use std::{ops::Range, sync::Arc};

use super::{
    run::{CallPart, PlannedPart, SpreadRun},
    target::SpreadTarget,
};
use crate::{
    buffer::Shifted,
    engine::EncodedScalars,
    error::EngineResult as Result,
    exec::{
        AwaitedElements, ElementSink, OutputWrites, ProgramPlan, RunCall, RunOperands, RunReport,
    },
    ops::{InputStep, Operation, OperationProgram},
    program::{InputSpec, StepKind},
    verify::Verification,
};

/// A range of the rows of each vector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartOfRows {
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
) -> Result<Option<SpreadRun<PartOfRows>>> {
    if alone.modelled.total < target.policy.program_time_min {
        return Ok(None);
    }
    let Some(rows) = independent_rows(call) else { return Ok(None) };
    SpreadRun::divide(target, call, alone, gpus_max.min(rows), |gpus| {
        let planned = PartOfRows::divide(rows, gpus).map(|part| {
            let call = Arc::new(part_call(call, &part)?);
            let plan = target.plan(&call);
            Ok(PlannedPart { part, call, plan })
        });
        planned.collect()
    })
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
fn part_call(call: &RunCall, rows: &PartOfRows) -> Result<RunCall> {
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

impl PartOfRows {
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

impl CallPart for PartOfRows {
    /// Each part writes rows that only it reads.
    const WRITES: OutputWrites = OutputWrites::RowByRow;

    fn with_operands<T>(
        &self,
        whole: &RunCall,
        operands: &RunOperands<'_>,
        act: impl FnOnce(&RunOperands<'_>) -> T,
    ) -> T {
        let first_byte = |count, width: usize| self.first_of(count) * width as u64;
        let sources = operands.inputs.iter().map(|input| {
            let start = first_byte(input.spec.count, input.spec.encoding.width());
            Shifted { all: input.source, start }
        });
        let sources: Vec<_> = sources.collect();
        let inputs = operands.inputs.iter().zip(&sources).map(|(input, source)| {
            let count = self.count_of(input.spec.count);
            EncodedScalars::of(InputSpec { count, ..input.spec }, source)
        });
        let inputs: Vec<_> = inputs.collect();
        let specs = whole.output_specs().iter();
        let sinks = specs.zip(operands.sinks).map(|(spec, sink)| {
            let ElementSink { encoding, sink } = (*sink)?;
            let start = first_byte(whole.elements_of(spec.value), encoding.width());
            Some((encoding, Shifted { all: sink, start }))
        });
        let sinks: Vec<_> = sinks.collect();
        let sinks = sinks.iter().map(|sink| {
            let (encoding, sink) = sink.as_ref()?;
            Some(ElementSink { encoding: *encoding, sink })
        });
        let sinks: Vec<_> = sinks.collect();
        act(&RunOperands { inputs: &inputs, sinks: &sinks, ..*operands })
    }

    fn span_in_whole(&self, whole: &RunCall, awaited: AwaitedElements) -> AwaitedElements {
        let AwaitedElements { input, elements: Range { start, end } } = awaited;
        let first = self.first_of(whole.input_specs()[input].count);
        AwaitedElements { input, elements: first + start..first + end }
    }

    fn add_to(&self, whole: &mut RunReport, report: RunReport) -> Result<()> {
        for (step, own) in whole.steps.iter_mut().zip(report.steps) {
            step.duration = step.duration.max(own.duration);
            step.verify_time = step.verify_time.max(own.verify_time);
            // A value is checked if all of its rows are.
            if self.rows.start == 0 || own.verified == Verification::None {
                step.verified = own.verified;
            }
            if step.method.is_empty() {
                step.method = own.method;
            }
        }
        Ok(())
    }
}
