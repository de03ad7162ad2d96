//! The seam between jobs and what runs their programs.

use std::{sync::Arc, time::Duration};

use super::{ModelledTime, RunOperands, RunReport, call::RunCall};
use crate::{
    engine::JobControl,
    error::Result,
    ops::OperationProgram,
    program::{InputSpec, OutputSpec},
    verify::Verification,
};

/// Runs programs.
pub trait Executor: Send + Sync {
    /// Checks the call and prepares a run.
    ///
    /// Errors: `Invalid` for the first input or output that the program does not allow.
    fn start(
        &self,
        program: Arc<OperationProgram>,
        inputs: &[InputSpec],
        outputs: Vec<OutputSpec>,
        verify: Verification,
    ) -> Result<Box<dyn RunInProgress>> {
        Ok(self.prepare(RunCall::new(program, inputs, &outputs, verify)?.into()))
    }

    /// Prepares the run of a checked call.
    fn prepare(&self, call: Arc<RunCall>) -> Box<dyn RunInProgress>;
}

/// A program in progress, run step by step. Values are wiped when they are dropped.
pub trait RunInProgress: Send {
    /// The most bytes of the host's memory that values and one step's work take at once.
    fn memory_bytes(&self) -> u64;

    /// The part of [`Self::memory_bytes`] that values take.
    fn value_bytes(&self) -> u64;

    /// The modelled time of all steps, their checks, and copies from and to the caller, if scalars
    /// are uniform and stored bases are on the device. Changes if the run moves to the host.
    fn modelled_time(&self) -> ModelledTime;

    /// Fails a run that would move from a GPU to the host, if its modelled time there is above
    /// `max`.
    fn limit_time_on_host(&mut self, _max: Duration) {}

    /// The number of the call's input that the next step decodes.
    fn next_input(&self) -> Option<usize>;

    /// Runs the next step, checks and delivers what it makes. Returns the report after the last
    /// step.
    ///
    /// Errors: `Step` for an element of an input that is not canonical; `Corrupt` if a check fails;
    /// `Cancelled`, `Deadline` from `control`; those of the engine. An error ends the run.
    fn step(
        &mut self,
        operands: &RunOperands<'_>,
        control: &JobControl,
    ) -> Result<Option<RunReport>>;
}
