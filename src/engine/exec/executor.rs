//! The seam between jobs and what runs their programs.

use std::{any::Any, sync::Arc, time::Duration};

use super::{AwaitedElements, ProgramPlan, RunOperands, RunReport, call::RunCall};
use crate::{
    curve::points::Bases,
    engines::{
        BasesDevice, DeviceInfo, DeviceResidency, JobControl, MsmNttEngine, PointChecker,
        ResidencyChange, ResidentObject,
    },
    error::{Error, Result},
    region::SharedMemory,
};

/// While a device computes one job, the host prepares another.
pub const JOBS_PER_DEVICE: usize = 2;

/// Up to this many scalars, an MSM takes less than twice as long as one of half its size
/// (`benches/RESULTS.md`), so a batch of two ends before the second of two MSMs that run one after
/// the other.
pub const MSM_BATCH_SCALARS_MAX: usize = 1 << 18;

/// Makes all devices of an executor forget what they keep of a call's bases and matrices, and their
/// tables: any of it may be damaged, since a result was wrong.
pub type Evictor = Box<dyn Fn(&RunOperands<'_>) + Send>;

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

    /// The number of GPUs that serve at the moment. Takes no time.
    fn gpus_serving(&self) -> usize {
        0
    }

    /// Lets the devices use shared memory until the value is dropped, and access its first
    /// `pinned_bytes` bytes directly, or as many as can be pinned. `None` if they gain nothing.
    fn share_memory(
        &self,
        _memory: &Arc<SharedMemory>,
        _pinned_bytes: usize,
    ) -> Option<Box<dyn Any + Send + Sync>> {
        None
    }

    /// The checker for points from outside, if it is not the host's own threads.
    fn point_checker(&self) -> Option<&dyn PointChecker> {
        None
    }

    /// The devices that can hold bases. Takes no time.
    fn bases_devices(&self) -> Vec<BasesDevice> {
        Vec::new()
    }

    /// The bases that a device holds. An object can occur several times, for its ranges. `None` if
    /// the device does not answer. May take milliseconds, or until a worker that hangs is lost.
    fn residency(&self, _device: u32) -> Option<Vec<ResidentObject>> {
        Some(Vec::new())
    }

    /// Changes what a device holds of the object that `bases` are part of. Returns what it holds
    /// then. May take seconds.
    ///
    /// Errors: `DeviceLost` if the device does not serve; `Exhausted` if it has no memory; those of
    /// `control`; `Internal` if there is no such device.
    fn set_residency(
        &self,
        _device: u32,
        _bases: &Bases,
        _change: ResidencyChange,
        _control: &JobControl,
    ) -> Result<DeviceResidency> {
        Err(Error::Internal("there is no such device".into()))
    }

    /// The engine that repeats calls for full checks; `None` in workers, which run none.
    fn oracle(&self) -> Option<Arc<dyn MsmNttEngine>>;

    /// What a failed full check calls.
    fn evictor(&self) -> Evictor {
        Box::new(|_| {})
    }

    /// Prepares the run of a call.
    fn prepare(&self, call: Arc<RunCall>) -> Box<dyn RunInProgress>;

    /// Ends the executor's processes, and waits until they have freed their GPUs for the next
    /// server, for some seconds at most.
    fn close(&self) {}

    /// MSMs over the same bases are faster as one batch, up to this many scalars in all; 0: never.
    fn msm_batch_scalars_max(&self) -> usize {
        0
    }
}

/// A program in progress, run step by step. Values are wiped when they are dropped.
pub trait RunInProgress: Send {
    fn plan(&self) -> &ProgramPlan;

    /// Fails a run that would move from a GPU to the host, if its modelled time there is above
    /// `max`.
    fn limit_time_on_host(&mut self, _max: Duration) {}

    /// Called once, before the first step. `bases` has one element per MSM step.
    fn begin(&mut self, _bases: &[Bases]) -> Result<()> {
        Ok(())
    }

    /// The elements that [`Self::step`] reads next; it may be called when they have arrived.
    fn awaited(&self) -> Option<AwaitedElements>;

    /// Runs the next step, or the next piece of the only step; checks and delivers what it makes.
    /// Returns the report after the last one.
    ///
    /// Errors: `Invalid` for an element of an input that is not canonical; `Corrupt` if a check
    /// fails; `Cancelled`, `Deadline` from `control`; those of the engine. An error ends the run.
    fn step(
        &mut self,
        operands: &RunOperands<'_>,
        control: &JobControl,
    ) -> Result<Option<RunReport>>;
}
