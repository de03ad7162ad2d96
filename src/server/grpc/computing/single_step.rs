//! Calls of one step, MSM and NTT: their jobs are programs of that step.

use std::{sync::Arc, time::Duration};

use super::program_limits::check_time;
use crate::grpc::calls::call::CallContext;
use crate::{
    curve::scalars::ScalarEncoding,
    error::{Error, FieldProblem, Result},
    exec::{ModelledTime, RunInProgress, start_run},
    jobs::{
        InputPayload, JobBases, JobPermit, JobTicket, ProgramJob, ProgramJobInput,
        ProgramJobOutput, ProgramOutput, ProgramWork,
    },
    ops::{OperationProgram, SINGLE_STEP},
    program::{InputSpec, OutputKind, OutputSpec},
    verify::Verification,
};

/// The input and the step that reads it.
const SINGLE_STEPS: usize = 2;

/// An admitted job whose payload is still to be found or opened.
pub struct SingleStepJob {
    pub call: &'static str,
    /// The call's field for its input.
    pub input_field: &'static str,
    pub run: Box<dyn RunInProgress>,
    pub elements: VectorRange,
    pub reduce: bool,
    pub bases: Vec<JobBases>,
    pub output: ProgramJobOutput,
    pub verify: Verification,
    /// Elements of a row.
    pub row_length: u64,
    pub permit: JobPermit,
}

/// The run of a program of one step.
pub struct SingleStepRun {
    program: Arc<OperationProgram>,
    pub run: Box<dyn RunInProgress>,
}

impl SingleStepRun {
    pub fn new(
        call: &CallContext,
        program: OperationProgram,
        elements: VectorRange,
        kind: OutputKind,
        verify: Verification,
    ) -> Result<Self> {
        let VectorRange { encoding, count, .. } = elements;
        let (program, output) = (Arc::new(program), OutputSpec { value: SINGLE_STEP, kind });
        let executor = &*call.state.compute.executor;
        let inputs = [InputSpec { encoding, count }];
        let run = start_run(executor, program.clone(), &inputs, &[output], verify)?;
        Ok(Self { program, run })
    }

    /// The modelled time of the job, which takes `before` before the run.
    ///
    /// Errors: `Step` if it is too long.
    pub fn limit_time(&mut self, call: &CallContext, before: Duration) -> Result<Duration> {
        let ModelledTime { total, longest } = self.run.plan().modelled;
        let total = total.saturating_add(before);
        check_time(call, &self.program, ModelledTime { total, longest })?;
        self.run.limit_time_on_host(call.state.settings.program_time_max);
        Ok(total)
    }
}

impl SingleStepJob {
    /// Queues the job at once.
    pub fn submit(
        self,
        call: &CallContext,
        InputPayload { payload, copy }: InputPayload,
    ) -> JobTicket<ProgramOutput> {
        let Self { elements, reduce, verify, permit, .. } = self;
        let VectorRange { encoding, first, count } = elements;
        let input = ProgramJobInput { payload, copy, encoding, reduce, first, count };
        let job = ProgramJob {
            call: self.call,
            run: self.run,
            inputs: vec![input],
            input_field: Some(self.input_field),
            bases: self.bases,
            matrices: Vec::new(),
            outputs: vec![self.output],
            early_points: None,
            verify,
            states_modelled_time: false,
            steps: SINGLE_STEPS,
            row_length: self.row_length,
        };
        let host = call.state.compute.clone();
        call.submit(permit, |waker| ProgramWork::new(host, job, waker))
    }
}

/// The vector that a call reads, or reads a part of.
#[derive(Debug, Clone, Copy)]
pub struct GivenVector {
    pub encoding: ScalarEncoding,
    /// Elements that the vector has.
    pub count: u64,
    /// Index of the first element to read; `None` if the call reads all of them.
    pub offset: Option<u64>,
}

impl GivenVector {
    pub fn whole(InputSpec { encoding, count }: InputSpec) -> Self {
        Self { encoding, count, offset: None }
    }

    /// The part that holds `batch` rows of `n` elements.
    ///
    /// Errors: `Invalid` if the vector is too short or the offset too large, or if all of the
    /// vector must be read and it is longer.
    pub fn rows(self, field: &'static str, batch: usize, n: u64) -> Result<VectorRange> {
        let Self { encoding, count: held, offset } = self;
        let count = (batch as u64)
            .checked_mul(n)
            .ok_or(Error::field(field, FieldProblem::TooLarge { max: u64::MAX }))?;
        let wrong = Error::field(field, FieldProblem::Length { expected: count, got: held });
        let first = match (offset, held.checked_sub(count)) {
            (None, Some(0)) => 0,
            (None, _) | (Some(_), None) => return Err(wrong),
            (Some(offset), Some(max)) if offset > max => {
                return Err(Error::field("stored.offset", FieldProblem::TooLarge { max }));
            }
            (Some(offset), Some(_)) => offset,
        };
        Ok(VectorRange { encoding, first, count })
    }
}

/// The elements that a call reads.
#[derive(Debug, Clone, Copy)]
pub struct VectorRange {
    pub encoding: ScalarEncoding,
    /// Index of the first one in the vector.
    pub first: u64,
    pub count: u64,
}
