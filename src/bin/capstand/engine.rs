//! Chooses the engine by the configuration and the hardware, and ends the process if a GPU is lost.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering},
};

use capstan::{
    config::{Config, EngineChoice},
    engine::{Engine, cpu::CpuEngine},
    server::Drainer,
};

use tracing::warn;

use super::{SOFTWARE, UNAVAILABLE, log_and_exit};

/// Returns the engine and the reason for the choice.
///
/// Errors: the exit code; the cause is logged.
pub fn engine(config: &Config, lifeline: &GpuLossHandler) -> Result<(Arc<dyn Engine>, String), u8> {
    let cpu = || CpuEngine::new(config.threads).map_err(log_and_exit(SOFTWARE));
    if config.engine == EngineChoice::Cpu {
        return Ok((Arc::new(cpu()?), "set by the configuration".into()));
    }
    match cuda::engine(config, cpu()?, lifeline) {
        Ok(engine_and_reason) => Ok(engine_and_reason),
        Err(NoGpu { why, is_enforced, .. })
            if is_enforced || config.engine == EngineChoice::Cuda =>
        {
            Err(log_and_exit(UNAVAILABLE)(why))
        }
        Err(NoGpu { why, is_on_a_gpu_host, .. }) => {
            if is_on_a_gpu_host {
                warn!(reason = why, "no GPU of this host is used: all work runs on the CPU");
            }
            Ok((Arc::new(cpu()?), why))
        }
    }
}

/// Why no GPU is used.
struct NoGpu {
    why: String,
    /// Whether the configuration requires a GPU.
    is_enforced: bool,
    is_on_a_gpu_host: bool,
}

/// Ends the process if a GPU is lost while the daemon serves. The startup code handles earlier
/// faults itself.
#[derive(Clone, Default)]
pub struct GpuLossHandler(Arc<GpuLossState>);

#[derive(Default)]
struct GpuLossState {
    drainer: OnceLock<Drainer>,
    lost: AtomicBool,
}

impl GpuLossHandler {
    /// From now on, the loss of a GPU ends the process.
    pub fn arm(&self, drainer: Drainer) {
        // The daemon has one server, so this is the first call.
        let _first = self.0.drainer.set(drainer);
    }

    /// The outcome of the process after the drain.
    ///
    /// Errors: the exit code if a GPU was lost.
    pub fn exit_status(&self) -> Result<(), u8> {
        if self.0.lost.load(Ordering::Acquire) { Err(SOFTWARE) } else { Ok(()) }
    }
}

#[cfg(feature = "cuda")]
mod cuda {
    use std::{thread, time::Duration};

    use capstan::{
        config::CudaSettings,
        engine::cuda::{
            CudaEngine, DeviceFault, DeviceSelection, FaultClass, GpuThresholds, GpuUnavailable,
            OpenOptions, UnusableDevice, exit_without_handlers, open as open_devices,
        },
        telemetry,
    };
    use tracing::{error, warn};

    use super::{Arc, Config, CpuEngine, Engine, GpuLossHandler, NoGpu, Ordering, SOFTWARE};

    /// Time to send responses; the GPU's work is lost.
    const FAULT_DRAIN_GRACE: Duration = Duration::from_millis(500);

    /// The engine on all usable GPUs, and a sentence that says how many there are.
    pub fn engine(
        config: &Config,
        cpu: CpuEngine,
        lifeline: &GpuLossHandler,
    ) -> Result<(Arc<dyn Engine>, String), NoGpu> {
        let cuda = &config.cuda;
        let is_enforced = cuda.devices_min > 0;
        let refuse = |reason: GpuUnavailable| {
            report(0, reason.left_out());
            let is_on_a_gpu_host = reason.is_on_a_gpu_host();
            NoGpu { why: reason.to_string(), is_enforced, is_on_a_gpu_host }
        };
        let engine = open(cuda, cpu, lifeline).map_err(refuse)?;
        report(engine.gpu_count(), engine.left_out());
        if (engine.gpu_count() as u32) < cuda.devices_min {
            let why = format!("{}; cuda_devices_min is {}", engine.summary(), cuda.devices_min);
            return Err(NoGpu { why, is_enforced: true, is_on_a_gpu_host: true });
        }
        engine.pin(cuda.pinned_bytes);
        let reason = engine.summary();
        Ok((Arc::new(engine), reason))
    }

    /// Logs the GPUs that are left out, and counts them and the `used` ones.
    fn report(used: usize, left_out: &[UnusableDevice]) {
        // The reason of an only GPU is why there is no engine, which is logged later.
        if used + left_out.len() > 1 {
            for UnusableDevice { index, reason } in left_out {
                warn!(device = index, %reason, "a GPU is left out");
            }
        }
        telemetry::devices(used, left_out.len());
    }

    fn open(
        cuda: &CudaSettings,
        cpu: CpuEngine,
        lifeline: &GpuLossHandler,
    ) -> Result<CudaEngine, GpuUnavailable> {
        let wanted = DeviceSelection { driver: cuda.driver.clone(), devices: cuda.devices.clone() };
        let lifeline = lifeline.clone();
        let options = OpenOptions {
            memory_percent: cuda.memory_percent,
            patience: cuda.timeout,
            on_fault: Arc::new(move |fault| on_fault(fault, &lifeline)),
            shared_bytes_max: None,
        };
        let least = GpuThresholds { msm_scalars: cuda.msm_min, ntt_elements: cuda.ntt_min };
        CudaEngine::new(cpu, open_devices(&wanted, &options)?, least)
    }

    /// A process cannot recover a lost GPU: it answers its jobs with UNAVAILABLE and exits, so that
    /// its supervisor restarts it.
    fn on_fault(fault: &DeviceFault, lifeline: &GpuLossHandler) {
        let class = fault.class();
        telemetry::count_device_fault(class.name());
        if class != FaultClass::Fatal {
            return;
        }
        let Some(drainer) = lifeline.0.drainer.get() else { return };
        lifeline.0.lost.store(true, Ordering::Release);
        drainer.drain(Some(FAULT_DRAIN_GRACE));
        let end = move || {
            thread::sleep(FAULT_DRAIN_GRACE);
            error!("a GPU is lost: exiting, restart the daemon");
            exit_without_handlers(SOFTWARE.into());
        };
        if thread::Builder::new().name("capstan-end".into()).spawn(end).is_err() {
            exit_without_handlers(SOFTWARE.into());
        }
    }
}

#[cfg(not(feature = "cuda"))]
mod cuda {
    use super::{Arc, Config, CpuEngine, Engine, GpuLossHandler, NoGpu};

    /// Errors: always; this build has no GPU support.
    pub fn engine(
        config: &Config,
        _: CpuEngine,
        _: &GpuLossHandler,
    ) -> Result<(Arc<dyn Engine>, String), NoGpu> {
        let is_enforced = config.cuda.devices_min > 0;
        let why = "this build has no GPU support".into();
        Err(NoGpu { why, is_enforced, is_on_a_gpu_host: false })
    }
}
