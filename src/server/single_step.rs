//! Calls of one step, MSM and NTT: their jobs are programs of that step.

use std::sync::Arc;

use super::call::CallContext;
use crate::{
    buffer::UploadBuffer,
    curve::scalars::ScalarEncoding,
    error::{Error, FieldProblem, Result},
    exec::RunInProgress,
    jobs::{
        AdmissionPermit, JobBases, JobTicket, ProgramJob, ProgramJobInput, ProgramJobOutput,
        ProgramOutput, ProgramWork,
    },
    ops::{OperationProgram, SINGLE_STEP},
    program::{InputSpec, OutputKind, OutputSpec},
    verify::Verification,
    wire::decode::VectorUploadHeader,
};

/// An admitted job whose payload is still to be found or opened.
pub struct SingleStepJob {
    pub call: &'static str,
    /// The call's field for its input.
    pub input_field: &'static str,
    pub run: Box<dyn RunInProgress>,
    pub encoding: ScalarEncoding,
    pub reduce: bool,
    /// Elements of the input.
    pub count: u64,
    pub bases: Vec<JobBases>,
    pub output: ProgramJobOutput,
    pub verify: Verification,
    /// Elements of a row.
    pub row_length: u64,
    pub permit: AdmissionPermit,
}

/// Prepares the run of a program of one step.
pub fn start(
    call: &CallContext,
    program: OperationProgram,
    vector: &VectorUploadHeader,
    kind: OutputKind,
    verify: Verification,
) -> Result<Box<dyn RunInProgress>> {
    let &VectorUploadHeader { encoding, count, .. } = vector;
    let output = OutputSpec { value: SINGLE_STEP, kind };
    let executor = &call.state.compute.executor;
    executor.start(Arc::new(program), &[InputSpec { encoding, count }], vec![output], verify)
}

impl SingleStepJob {
    /// Queues the job at once.
    pub fn submit(
        self,
        call: &CallContext,
        payload: Arc<UploadBuffer>,
    ) -> JobTicket<ProgramOutput> {
        let Self { encoding, reduce, count, verify, permit, .. } = self;
        let input = ProgramJobInput { payload, copy: None, encoding, reduce, first: 0, count };
        let job = ProgramJob {
            call: self.call,
            run: self.run,
            inputs: vec![input],
            input_field: Some(self.input_field),
            bases: self.bases,
            outputs: vec![self.output],
            verify,
            states_modelled_time: false,
            steps: 1,
            row_length: self.row_length,
        };
        let host = call.state.compute.clone();
        call.submit(permit, |waker| ProgramWork::new(host, job, waker))
    }
}

/// Checks that a payload of `count` elements holds `batch` vectors of `n`.
///
/// Errors: `Invalid` if it does not, or if the product overflows.
pub fn check_count(field: &'static str, count: u64, batch: usize, n: u64) -> Result<()> {
    let expected = (batch as u64)
        .checked_mul(n)
        .ok_or(Error::field(field, FieldProblem::TooLarge { max: u64::MAX }))?;
    if count != expected {
        return Err(Error::field(field, FieldProblem::Length { expected, got: count }));
    }
    Ok(())
}
