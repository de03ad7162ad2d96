//! The job of a program: runs it step by step, each step once the elements that it reads have
//! arrived. A small MSM may be computed with others that wait.

use std::{mem, sync::Arc, time::Duration};

use tracing::{Span, debug_span, field::Empty};

use super::{
    ComputeHost, EarlyPoints, JobBases, JobWaker, JobWork, ProgramJobInput, early_points,
    scheduler::SHORT_JOB_MAX,
    waiting_msms::{BatchKey, BatchedMsm, PickedMsm, WaitingMsm, may_share},
};
use crate::{
    buffer::{PayloadView, ProgressListener, UploadBuffer},
    curve::{
        points::{Bases, SumEncoding},
        scalars::ScalarEncoding,
    },
    engine::{EncodedScalars, ExecutedBy, JobControl},
    error::{EngineError, Error, InputError, Result},
    exec::{ElementSink, RunInProgress, RunOperands, RunReport, StepReport},
    sparse::SparseMatrix,
    verify::Verification,
};

pub struct ProgramJob {
    /// The name of the call, for logs.
    pub call: &'static str,
    pub run: Box<dyn RunInProgress>,
    /// One per input step.
    pub inputs: Vec<ProgramJobInput>,
    /// The call's field for its only input; `None` if errors name the step of the input.
    pub input_field: Option<&'static str>,
    /// One per MSM step.
    pub bases: Vec<JobBases>,
    /// One per step that uses a matrix.
    pub matrices: Vec<SparseMatrix>,
    /// One per output of the run.
    pub outputs: Vec<ProgramJobOutput>,
    /// Points that are sent before the end.
    pub early_points: Option<EarlyPoints>,
    pub verify: Verification,
    /// Whether the output states the modelled time. Computing it takes as long as planning the job.
    pub states_modelled_time: bool,
    /// Number of steps, for logs.
    pub steps: usize,
    /// Elements of the longest row.
    pub row_length: u64,
}

pub enum ProgramJobOutput {
    /// Rows, written to a payload of their size.
    Elements {
        encoding: ScalarEncoding,
        payload: Arc<UploadBuffer>,
    },
    Points(SumEncoding),
}

/// What a program reports about its computation.
pub struct JobReport {
    /// log2 of the length of one vector or row, rounded down.
    pub lg_n: u32,
    pub verify: Verification,
    /// Time spent checking; part of the run time.
    pub verify_time: Duration,
    pub executor: ExecutedBy,
}

pub struct ProgramOutput {
    /// One per output: its points, encoded; empty for a vector.
    pub points: Vec<Vec<u8>>,
    pub steps: Vec<StepReport>,
    /// The modelled time of the run, on what ran it, if the job states it.
    pub modelled_time: Option<Duration>,
    pub report: JobReport,
    /// The number of jobs computed in one batch with this one, itself included.
    pub batch_jobs: usize,
    /// The part of that batch's work that was done for this job.
    pub batch_share: f64,
    /// How long that batch took on another job's worker; zero if this job's worker computed it.
    pub computed_elsewhere: Duration,
}

pub struct ProgramWork {
    host: Arc<ComputeHost>,
    job: ProgramJob,
    phase: ProgramPhase,
    /// Wakes the job when bytes of an input arrive or its upload fails.
    _listener: Arc<ProgressListener>,
}

enum ProgramPhase {
    /// May be computed by another job.
    Waiting(WaitingMsm),
    NotBegun,
    /// With the bases of each MSM step.
    Running(Vec<Bases>),
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
    pub fn new(host: Arc<ComputeHost>, job: ProgramJob, waker: JobWaker) -> Self {
        let woken = waker.clone();
        let listener: Arc<ProgressListener> = Arc::new(move || woken.wake());
        job.inputs.iter().for_each(|input| input.payload.listen(&listener));
        let phase = match Self::waiting(&host, &job, waker) {
            Some(waiting) => ProgramPhase::Waiting(waiting),
            None => ProgramPhase::NotBegun,
        };
        Self { host, job, phase, _listener: listener }
    }

    /// The job among those that wait for a batch, if it is a small MSM.
    fn waiting(host: &ComputeHost, job: &ProgramJob, waker: JobWaker) -> Option<WaitingMsm> {
        let vectors = job.run.plan().msm_vectors?;
        let ([JobBases::Checked(bases)], [input]) = (job.bases.as_slice(), job.inputs.as_slice())
        else {
            return None;
        };
        let is_small = may_share(&*host.executor, bases.len(), vectors);
        let can_wait = is_small && input.copy.is_none();
        can_wait.then(|| {
            let key = BatchKey::new(bases, input, job.verify);
            let input = input.clone();
            WaitingMsm::new(&host.waiting_msms, key, bases.clone(), input, vectors, waker)
        })
    }

    /// The failure of an input that has not arrived.
    fn failure(&self) -> Option<EngineError> {
        let mut awaited = self.job.inputs.iter().filter(|input| !input.has_arrived());
        awaited.find_map(|input| input.payload.failure())
    }

    fn has_arrived(&self) -> bool {
        self.job.inputs.iter().all(ProgramJobInput::has_arrived)
    }

    /// Whether the elements that the next step reads have arrived, and all of those to be copied.
    fn has_next_elements(&self) -> bool {
        let inputs = &self.job.inputs;
        let can_copy = inputs.iter().all(|input| input.copy.is_none() || input.has_arrived());
        let awaited = self.job.run.awaited();
        can_copy && awaited.is_none_or(|next| inputs[next.input].has_received(&next.elements))
    }

    /// Checks the next points of the request's bases, and after the last ones lets the run prepare
    /// for its inputs. `None` while points are unchecked.
    fn begin(&mut self, control: &JobControl) -> Result<Option<Vec<Bases>>> {
        let mut bases = Vec::with_capacity(self.job.bases.len());
        for each in &mut self.job.bases {
            each.check_piece(&self.host, control)?;
            match each {
                JobBases::Checked(checked) => bases.push(checked.clone()),
                JobBases::Unchecked(_) => return Ok(None),
            }
        }
        self.job.run.begin(&bases)?;
        self.job.bases.clear();
        Ok(Some(bases))
    }

    /// Runs a step if what it reads has arrived.
    fn run_step(&mut self, bases: &[Bases], control: &JobControl) -> Result<Option<RunReport>> {
        if let Some(failure) = self.failure() {
            return Err(failure.into());
        }
        if !self.has_next_elements() {
            return Ok(None);
        }
        self.job.inputs.iter_mut().try_for_each(|input| input.make_copy(control))?;
        let ProgramJob { run, inputs, matrices, outputs, early_points, input_field, .. } =
            &mut self.job;
        let sources = inputs
            .iter()
            .map(|input| PayloadView::starting_at(&input.payload, input.byte_range().start));
        let sources: Vec<_> = sources.collect();
        let elements = inputs.iter().zip(&sources);
        let elements = elements.map(|(input, source)| EncodedScalars::of(input.spec, source));
        let views: Vec<_> = outputs.iter().map(ProgramJobOutput::view).collect();
        let sinks = outputs.iter().zip(&views).map(|(output, view)| output.sink(view));
        let elements = elements.collect::<Vec<_>>();
        let sinks = sinks.collect::<Vec<_>>();
        // Not on a rayon pool: while it waits for another pool, as an engine does, its thread would
        // run another program's step on top of this one, which may wait for the same device.
        let early = early_points.as_ref();
        let listeners = outputs.iter().enumerate().map(|(number, output)| match output {
            ProgramJobOutput::Points(encoding) => early?.listener(&self.host, number, *encoding),
            ProgramJobOutput::Elements { .. } => None,
        });
        let listeners: Vec<_> = listeners.collect();
        let early_sums: Vec<_> = listeners.iter().map(Option::as_deref).collect();
        let inputs = &elements[..];
        let sinks = &sinks[..];
        let early_sums = &early_sums[..];
        let operands = RunOperands { inputs, bases, matrices, sinks, early_sums };
        let report = operands.run(|| run.step(&operands, control)).and_then(|report| {
            if let (Some(report), Some(early)) = (&report, early) {
                early.check(&report.points)?;
            }
            Ok(report)
        });
        report.map_err(|error| match (*input_field, error) {
            (
                Some(field),
                EngineError::Input(InputError::Invalid { index: Some(index), problem, .. }),
            ) => Error::element(field, index, problem),
            (_, error) => error.into(),
        })
    }

    /// Errors: `DiskFailed` if bases that were checked before could not be read.
    fn check_file_of_bases(&self) -> Result<()> {
        let is_intact = |bases: &JobBases| match bases {
            JobBases::Checked(bases) => bases.is_intact(),
            JobBases::Unchecked(_) => true,
        };
        if self.job.bases.iter().all(is_intact) { Ok(()) } else { Err(Error::DISK_FAILED) }
    }

    fn output(&self, report: RunReport) -> ProgramOutput {
        let verify_time = report.steps.iter().map(|step| step.verify_time).sum();
        let points = self.job.outputs.iter().zip(&report.points).map(|(output, sums)| {
            match (output, sums) {
                (ProgramJobOutput::Points(encoding), Some(sums)) => {
                    early_points::encode(&self.host, *encoding, sums)
                }
                _ => Vec::new(),
            }
        });
        let ProgramJob { row_length, verify, states_modelled_time, .. } = self.job;
        let lg_n = row_length.checked_ilog2().unwrap_or(0);
        ProgramOutput {
            points: points.collect(),
            steps: report.steps,
            modelled_time: states_modelled_time.then(|| self.job.run.plan().modelled.total),
            report: JobReport { lg_n, verify, verify_time, executor: report.executor },
            batch_jobs: 1,
            batch_share: 1.0,
            computed_elsewhere: Duration::ZERO,
        }
    }
}

impl JobWork for ProgramWork {
    type Output = ProgramOutput;

    fn span(&self, id: u64) -> Span {
        let ProgramJob { call: op, row_length: n, steps, .. } = self.job;
        debug_span!("job", id, op, n, steps, queue_us = Empty, run_us = Empty)
    }

    fn charged_time(output: &ProgramOutput, step: Duration) -> Duration {
        step.max(output.computed_elsewhere).mul_f64(output.batch_share)
    }

    fn is_ready(&self) -> bool {
        match &self.phase {
            ProgramPhase::Waiting(waiting) => {
                waiting.is_ready() && (self.has_arrived() || self.failure().is_some())
            }
            ProgramPhase::NotBegun => true,
            ProgramPhase::Running(_) => self.has_next_elements() || self.failure().is_some(),
        }
    }

    fn is_short(&self) -> bool {
        let check: Duration = self.job.bases.iter().map(|each| each.check_time(&self.host)).sum();
        self.job.run.plan().modelled.total + check <= SHORT_JOB_MAX
    }

    fn is_computed(&self) -> bool {
        matches!(&self.phase, ProgramPhase::Waiting(waiting) if waiting.is_computed())
    }

    fn step(&mut self, control: &JobControl) -> Result<Option<ProgramOutput>> {
        let begun = match mem::replace(&mut self.phase, ProgramPhase::NotBegun) {
            ProgramPhase::Waiting(waiting) => match waiting.pick(&*self.host.executor) {
                PickedMsm::Taken => {
                    self.phase = ProgramPhase::Waiting(waiting);
                    return Ok(None);
                }
                PickedMsm::Computed(BatchedMsm { report, jobs, share, elsewhere }) => {
                    self.check_file_of_bases()?;
                    let output = self.output(report);
                    return Ok(Some(ProgramOutput {
                        batch_jobs: jobs,
                        batch_share: share,
                        computed_elsewhere: elsewhere,
                        ..output
                    }));
                }
                PickedMsm::Alone => self.begin(control)?,
            },
            ProgramPhase::NotBegun => self.begin(control)?,
            ProgramPhase::Running(bases) => Some(bases),
        };
        let Some(bases) = begun else { return Ok(None) };
        let report = self.run_step(&bases, control)?;
        self.phase = ProgramPhase::Running(bases);
        Ok(report.map(|report| self.output(report)))
    }
}
