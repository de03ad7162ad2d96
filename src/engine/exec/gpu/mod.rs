//! Programs on a GPU. A program of several steps starts when all inputs have arrived, so that slow
//! senders hold no device memory. If no GPU has memory for it, the host runs it, unless that takes
//! too long.
//!
//! A job leaves a GPU soon after it is cancelled: at most 16 steps of a program are launched ahead,
//! and whoever waits for long work checks every millisecond whether the job is cancelled. An MSM is
//! launched as a whole, so its passes may take the GPU until they end, but no thread waits for
//! them.

mod launched;

use std::{any::Any, mem, sync::Arc, time::Duration};

use tracing::debug;

use self::launched::LaunchedRun;
use super::{
    AwaitedElements, Evictor, Executor, HostExecutor, ProgramPlan, RunInProgress, RunOperands,
    RunReport,
    call::RunCall,
    executor::{JOBS_PER_DEVICE, MSM_BATCH_SCALARS_MAX},
    in_pieces::RunInPieces,
};
use crate::{
    curve::points::Bases,
    engines::{
        BasesDevice, DeviceInfo, DeviceResidency, EngineModel, JobControl, MsmNttEngine,
        PointChecker, ResidencyChange, ResidentObject, cuda::CudaEngine,
    },
    error::{Error, Limit, Result},
    region::SharedMemory,
};

/// Runs each program on one of an engine's GPUs.
#[derive(Clone)]
pub struct GpuExecutor {
    engine: Arc<CudaEngine>,
    /// Runs programs that a GPU has no memory for.
    pub host: HostExecutor,
}

struct GpuRun {
    engine: Arc<CudaEngine>,
    call: Arc<RunCall>,
    /// Takes over if the GPU has no memory.
    on_host: Box<dyn RunInProgress>,
    plan: ProgramPlan,
    time_on_host_max: Duration,
    phase: GpuPhase,
}

enum GpuPhase {
    /// Waits for the input of this number; all before it have arrived.
    Waiting(usize),
    Launching(Box<LaunchedRun>),
    OnHost,
}

impl GpuExecutor {
    /// `oracle` is [`Executor::oracle`].
    pub fn new(engine: Arc<CudaEngine>, oracle: Option<Arc<dyn MsmNttEngine>>) -> Self {
        Self { engine: engine.clone(), host: HostExecutor { engine, oracle } }
    }
}

impl Executor for GpuExecutor {
    fn description(&self) -> DeviceInfo {
        self.engine.description()
    }

    fn devices(&self) -> Vec<DeviceInfo> {
        self.engine.devices()
    }

    fn jobs_at_once(&self) -> usize {
        JOBS_PER_DEVICE * self.engine.gpu_count()
    }

    fn gpus_serving(&self) -> usize {
        self.engine.gpu_count()
    }

    fn share_memory(
        &self,
        memory: &Arc<SharedMemory>,
        pinned_bytes: usize,
    ) -> Option<Box<dyn Any + Send + Sync>> {
        self.engine.pin_memory(memory, pinned_bytes)
    }

    fn point_checker(&self) -> Option<&dyn PointChecker> {
        Some(&*self.engine)
    }

    fn bases_devices(&self) -> Vec<BasesDevice> {
        self.engine.bases_devices()
    }

    fn residency(&self, device: u32) -> Option<Vec<ResidentObject>> {
        Some(self.engine.residency(device))
    }

    fn set_residency(
        &self,
        device: u32,
        bases: &Bases,
        change: ResidencyChange,
        control: &JobControl,
    ) -> Result<DeviceResidency> {
        self.engine.set_residency(device, bases, change, control)
    }

    fn oracle(&self) -> Option<Arc<dyn MsmNttEngine>> {
        self.host.oracle()
    }

    fn evictor(&self) -> Evictor {
        let engine = self.engine.clone();
        Box::new(move |operands| engine.evict_suspects(operands.bases, operands.matrices))
    }

    fn prepare(&self, call: Arc<RunCall>) -> Box<dyn RunInProgress> {
        if let Some(run) = RunInPieces::new(&self.host.engine, &call) {
            return Box::new(run);
        }
        if ProgramPlan::suits_cpu(&call, self.engine.model()) {
            let engine = self.engine.model().cpu.clone();
            return HostExecutor { engine, ..self.host.clone() }.prepare(call);
        }
        let on_host = self.host.prepare(call.clone());
        let engine = self.engine.clone();
        let plan = ProgramPlan::on_gpu(&call, engine.model());
        let time_on_host_max = Duration::MAX;
        let phase = GpuPhase::Waiting(0);
        Box::new(GpuRun { engine, call, on_host, plan, time_on_host_max, phase })
    }

    fn msm_batch_scalars_max(&self) -> usize {
        MSM_BATCH_SCALARS_MAX
    }
}

impl RunInProgress for GpuRun {
    fn plan(&self) -> &ProgramPlan {
        &self.plan
    }

    fn limit_time_on_host(&mut self, max: Duration) {
        self.time_on_host_max = max;
    }

    fn awaited(&self) -> Option<AwaitedElements> {
        match &self.phase {
            GpuPhase::Waiting(next) => self.call.whole_input(*next),
            GpuPhase::Launching(_) => None,
            GpuPhase::OnHost => self.on_host.awaited(),
        }
    }

    fn step(
        &mut self,
        operands: &RunOperands<'_>,
        control: &JobControl,
    ) -> Result<Option<RunReport>> {
        control.check()?;
        let advanced = match mem::replace(&mut self.phase, GpuPhase::OnHost) {
            GpuPhase::OnHost => return self.on_host.step(operands, control),
            GpuPhase::Waiting(next) if next < self.call.input_count() => {
                self.phase = GpuPhase::Waiting(next + 1);
                return Ok(None);
            }
            GpuPhase::Waiting(_) => {
                LaunchedRun::new(self.engine.clone(), self.call.clone(), operands, control)
            }
            GpuPhase::Launching(mut run) => match run.advance(operands, control) {
                Ok(true) => Ok(run),
                Ok(false) => return run.finish(operands, control).map(Some),
                Err(error) => Err(error),
            },
        };
        match advanced {
            Ok(run) => self.phase = GpuPhase::Launching(run),
            // No output has been delivered yet.
            Err(error @ Error::Exhausted { limit: Limit::DeviceMemory, .. }) => {
                self.plan.modelled = self.on_host.plan().modelled;
                if self.plan.modelled.total > self.time_on_host_max {
                    return Err(error);
                }
                debug!("no GPU has memory for the program");
            }
            Err(error) => return Err(error),
        }
        Ok(None)
    }
}
