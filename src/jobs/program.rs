//! The job of a program: runs it step by step, each step once the input that it reads has arrived.

use std::{ops::Range, sync::Arc, time::Duration};

use tracing::{Span, debug_span, field::Empty};
use zeroize::Zeroizing;

use super::{JobReport, JobWaker, JobWork};
use crate::{
    buffer::{PayloadView, ProgressListener, UploadBuffer},
    curve::{
        points::{self, Bases, SumEncoding},
        scalars::ScalarEncoding,
    },
    engine::{ElementNames, EncodedScalars, JobControl},
    error::{Error, Result},
    exec::{ElementSink, RunInProgress, RunOperands, RunReport, StepReport},
    verify::Verification,
};

/// Bytes of a region that are copied at a time.
const COPIED_BYTES: usize = 256 << 10;

pub struct ProgramJob {
    pub run: Box<dyn RunInProgress>,
    /// One per input step.
    pub inputs: Vec<ProgramJobInput>,
    /// One per MSM step.
    pub bases: Vec<Bases>,
    /// One per output of the run.
    pub outputs: Vec<ProgramJobOutput>,
    pub verify: Verification,
    /// Number of steps, for logs.
    pub steps: usize,
    /// log2 of the longest row, rounded down.
    pub lg_n: u32,
}

/// The elements of an input: a part of a payload.
pub struct ProgramJobInput {
    pub payload: Arc<UploadBuffer>,
    /// Memory for a copy of a payload in a region: the checks of a call read its inputs again, when
    /// the client may have changed them.
    pub copy: Option<Arc<UploadBuffer>>,
    pub encoding: ScalarEncoding,
    pub reduce: bool,
    /// Index of the first element.
    pub first: u64,
    pub count: u64,
}

pub enum ProgramJobOutput {
    /// Rows, written to a payload of their size.
    Elements {
        encoding: ScalarEncoding,
        payload: Arc<UploadBuffer>,
    },
    Points(SumEncoding),
}

pub struct ProgramOutput {
    /// One per output: its points, encoded; empty for a vector.
    pub points: Vec<Vec<u8>>,
    pub steps: Vec<StepReport>,
    /// The modelled time of the run, on what ran it.
    pub modelled_time: Duration,
    pub report: JobReport,
}

pub struct ProgramWork {
    job: ProgramJob,
    /// Wakes the job when bytes of an input arrive or its upload fails.
    _listener: Arc<ProgressListener>,
}

impl ProgramJobInput {
    fn byte_range(&self) -> Range<u64> {
        let width = self.encoding.width() as u64;
        self.first * width..(self.first + self.count) * width
    }

    fn has_arrived(&self) -> bool {
        self.payload.has_received(self.byte_range())
    }

    /// If the input has memory for a copy, fills it and reads it from now on.
    fn make_copy(&mut self, control: &JobControl) -> Result<()> {
        let Some(copy) = self.copy.take() else { return Ok(()) };
        let mut bytes = Zeroizing::new(vec![0; COPIED_BYTES.min(copy.len() as usize)]);
        for start in (0..copy.len()).step_by(COPIED_BYTES) {
            control.check()?;
            let len = (copy.len() - start).min(COPIED_BYTES as u64) as usize;
            self.payload.read(start, &mut bytes[..len]);
            copy.write(start, &bytes[..len])?;
        }
        self.payload = copy;
        Ok(())
    }

    /// The elements, which `source` holds. Errors name them after the program's step.
    fn elements<'a>(&self, source: &'a PayloadView<'a>) -> EncodedScalars<'a> {
        let &Self { encoding, reduce, count, .. } = self;
        let names = ElementNames { field: "elements", first: 0 };
        EncodedScalars { encoding, reduce, count: count as usize, names, source }
    }
}

impl ProgramJobOutput {
    /// The payload of a vector, to be written from its start on.
    fn view(&self) -> Option<PayloadView<'_>> {
        match self {
            Self::Elements { payload, .. } => Some(PayloadView::starting_at(payload, 0)),
            Self::Points(_) => None,
        }
    }

    fn sink<'a>(&self, view: &'a Option<PayloadView<'a>>) -> Option<ElementSink<'a>> {
        match (self, view) {
            (Self::Elements { encoding, .. }, Some(sink)) => {
                Some(ElementSink { encoding: *encoding, sink })
            }
            _ => None,
        }
    }
}

impl ProgramWork {
    pub fn new(job: ProgramJob, waker: JobWaker) -> Self {
        let listener: Arc<ProgressListener> = Arc::new(move || waker.wake());
        job.inputs.iter().for_each(|input| input.payload.listen(&listener));
        Self { job, _listener: listener }
    }

    /// The failure of an input that has not arrived.
    fn failure(&self) -> Option<Error> {
        let mut awaited = self.job.inputs.iter().filter(|input| !input.has_arrived());
        awaited.find_map(|input| input.payload.failure())
    }

    /// Whether the input that the next step reads has arrived.
    fn has_next_input(&self) -> bool {
        self.job.run.next_input().is_none_or(|number| self.job.inputs[number].has_arrived())
    }

    fn output(&self, report: RunReport) -> ProgramOutput {
        let verify_time = report.steps.iter().map(|step| step.verify_time).sum();
        let points = self.job.outputs.iter().zip(&report.points).map(|(output, sums)| {
            match (output, sums) {
                (ProgramJobOutput::Points(encoding), Some(sums)) => {
                    points::encode_sums(*encoding, sums)
                }
                _ => Vec::new(),
            }
        });
        let ProgramJob { lg_n, verify, .. } = self.job;
        ProgramOutput {
            points: points.collect(),
            steps: report.steps,
            modelled_time: self.job.run.modelled_time().total,
            report: JobReport { lg_n, verify, verify_time, executor: report.executor },
        }
    }
}

impl JobWork for ProgramWork {
    type Output = ProgramOutput;

    fn span(&self, id: u64) -> Span {
        let steps = self.job.steps;
        debug_span!("job", id, op = "run", steps, queue_us = Empty, run_us = Empty)
    }

    fn is_ready(&self) -> bool {
        self.has_next_input() || self.failure().is_some()
    }

    fn step(&mut self, control: &JobControl) -> Result<Option<ProgramOutput>> {
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        if !self.has_next_input() {
            return Ok(None);
        }
        self.job.inputs.iter_mut().try_for_each(|input| input.make_copy(control))?;
        let ProgramJob { run, inputs, bases, outputs, .. } = &mut self.job;
        let sources = inputs
            .iter()
            .map(|input| PayloadView::starting_at(&input.payload, input.byte_range().start));
        let sources: Vec<_> = sources.collect();
        let elements = inputs.iter().zip(&sources).map(|(input, source)| input.elements(source));
        let views: Vec<_> = outputs.iter().map(ProgramJobOutput::view).collect();
        let sinks = outputs.iter().zip(&views).map(|(output, view)| output.sink(view));
        let (elements, sinks) = (elements.collect::<Vec<_>>(), sinks.collect::<Vec<_>>());
        // Not on a rayon pool: while it waits for another pool, as an engine does, its thread would
        // run another program's step on top of this one, which may wait for the same device.
        let report = run.step(&RunOperands { inputs: &elements, bases, sinks: &sinks }, control)?;
        Ok(report.map(|report| self.output(report)))
    }
}
