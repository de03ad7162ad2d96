//! The seam between jobs and what runs their programs.

use std::{any::Any, sync::Arc, time::Duration};

use super::{AwaitedElements, ModelledTime, RunOperands, RunReport, call::RunCall};
use crate::{
    curve::points::Bases,
    engine::{DeviceInfo, JobControl, PointChecker},
    error::Result,
    ops::OperationProgram,
    program::{InputSpec, OutputSpec},
    region::SharedMemory,
    verify::Verification,
};

/// One job computes while the host prepares another.
pub(super) const JOBS_PER_DEVICE: usize = 2;

/// Runs programs on its devices.
pub trait Executor: Send + Sync {
    /// All devices that compute, described as one: their names, their units and memory in total.
    fn description(&self) -> DeviceInfo;

    /// The devices with current readings. May take milliseconds.
    fn devices(&self) -> Vec<DeviceInfo> {
        vec![self.description()]
    }

    /// The number of jobs in progress that keeps all devices busy.
    fn jobs_at_once(&self) -> usize {
        JOBS_PER_DEVICE
    }

    /// Lets the devices access the first `bytes` bytes of shared memory directly until the value is
    /// dropped, or as many as can be pinned; `None` if no byte can.
    fn pin_memory(
        &self,
        _memory: &Arc<SharedMemory>,
        _bytes: usize,
    ) -> Option<Box<dyn Any + Send + Sync>> {
        None
    }

    /// The checker for points from outside, if it is not the host's own threads.
    fn point_checker(&self) -> Option<&dyn PointChecker> {
        None
    }

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

    /// MSMs over the same bases are faster as one batch, up to this many scalars in all; 0: never.
    fn msm_batch_scalars_max(&self) -> usize {
        0
    }
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

    /// The number of scalar vectors, if all of the run is one MSM of an input.
    fn msm_vectors(&self) -> Option<usize> {
        None
    }

    /// Whether the run may write to an output before it has read all of its inputs.
    fn writes_early(&self) -> bool {
        false
    }

    /// Called once, before the first step. `bases` has one element per MSM step.
    fn begin(&mut self, _bases: &[Bases]) -> Result<()> {
        Ok(())
    }

    /// The elements that [`Self::step`] reads next; it may be called when they have arrived.
    fn awaited(&self) -> Option<AwaitedElements>;

    /// Runs the next step, or the next piece of the only step; checks and delivers what it makes.
    /// Returns the report after the last one.
    ///
    /// Errors: `Step` for an element of an input that is not canonical; `Corrupt` if a check fails;
    /// `Cancelled`, `Deadline` from `control`; those of the engine. An error ends the run.
    fn step(
        &mut self,
        operands: &RunOperands<'_>,
        control: &JobControl,
    ) -> Result<Option<RunReport>>;
}
