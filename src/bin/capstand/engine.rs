//! Chooses the engine by the configuration and the hardware, and ends the process if a GPU is lost.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering},
};

use capstan::{
    config::{Config, EngineChoice},
    engine::cpu::{ArkworksEngine, CpuEngine},
    server::{Drainer, Engines},
};

use tracing::warn;

use super::{SOFTWARE, UNAVAILABLE, log_and_exit};

/// Errors: the exit code; the cause is logged.
pub fn choose(config: &Config, loss_handler: &Arc<GpuLossHandler>) -> Result<Engines, u8> {
    let cpu = || CpuEngine::new(config.threads).map_err(log_and_exit(SOFTWARE));
    let oracle = || ArkworksEngine::new(config.verify_threads).map_err(log_and_exit(SOFTWARE));
    if config.engine == EngineChoice::Cpu {
        return Ok(Engines::on_host(cpu()?, oracle()?, "set by the configuration"));
    }
    match cuda::engines(config, cpu()?, oracle()?, loss_handler) {
        Ok(engines) => Ok(engines),
        Err(NoGpu { reason, is_required, host_has_gpus }) => {
            if is_required || config.engine == EngineChoice::Cuda {
                return Err(log_and_exit(UNAVAILABLE)(reason));
            }
            if host_has_gpus {
                warn!(reason, "no GPU of this host is used: all work runs on the CPU");
            }
            Ok(Engines::on_host(cpu()?, oracle()?, reason))
        }
    }
}

struct NoGpu {
    reason: String,
    /// Whether the configuration requires a GPU.
    is_required: bool,
    host_has_gpus: bool,
}

/// Ends the process if a GPU is lost while the daemon serves. The startup code handles earlier
/// faults itself.
#[derive(Default)]
pub struct GpuLossHandler {
    drainer: OnceLock<Drainer>,
    lost: AtomicBool,
}

impl GpuLossHandler {
    /// From now on, the loss of a GPU ends the process.
    pub fn arm(&self, drainer: Drainer) {
        // The daemon has one server, so this is the first call.
        let _ = self.drainer.set(drainer);
    }

    /// The outcome of the process after the drain.
    ///
    /// Errors: the exit code if a GPU was lost.
    pub fn exit_status(&self) -> Result<(), u8> {
        if self.lost.load(Ordering::Acquire) { Err(SOFTWARE) } else { Ok(()) }
    }
}

mod cuda {
    use std::time::Duration;

    use capstan::{
        config::{CudaSettings, GpuIsolation},
        engine::cuda::{
            CudaEngine, DeviceFault, DevicePolicy, DeviceSelection, FaultClass, GpuPolicy,
            GpuUnavailable, INTEGER_LIMBS_MIN, OpenOptions, SERVER_MEMORY_WAIT, UnusableDevice,
            exit_later, exit_without_handlers, open as open_devices,
        },
        server::{SpreadPolicy, WorkerPoolSettings, WorkerSettings},
        telemetry,
    };
    use tracing::{error, warn};

    use super::{
        super::worker, Arc, ArkworksEngine, Config, CpuEngine, Engines, GpuLossHandler, NoGpu,
        Ordering, SOFTWARE,
    };

    /// Time to send responses; the GPU's work is lost.
    const FAULT_DRAIN_GRACE: Duration = Duration::from_millis(500);

    /// Errors: no GPU can be used, or fewer than the configuration requires.
    pub fn engines(
        config: &Config,
        cpu: CpuEngine,
        oracle: ArkworksEngine,
        loss_handler: &Arc<GpuLossHandler>,
    ) -> Result<Engines, NoGpu> {
        let cuda = &config.cuda;
        let engines = match cuda.isolation {
            GpuIsolation::Process | GpuIsolation::Unrestricted => on_workers(config, cpu, oracle)?,
            GpuIsolation::None => in_this_process(cuda, cpu, oracle, loss_handler)?,
        };
        let used = engines.devices().iter().filter(|device| device.gpu.is_some()).count();
        if (used as u32) < cuda.devices_min {
            let reason = engines.reason();
            let min = cuda.devices_min;
            let reason = format!("{reason}; cuda_devices_min is {min}");
            return Err(NoGpu { reason, is_required: true, host_has_gpus: true });
        }
        Ok(engines)
    }

    fn on_workers(
        config: &Config,
        cpu: CpuEngine,
        oracle: ArkworksEngine,
    ) -> Result<Engines, NoGpu> {
        let cuda = &config.cuda;
        let is_required = cuda.devices_min > 0;
        let settings = WorkerPoolSettings {
            command: worker::command(config),
            devices: cuda.devices.clone(),
            worker: WorkerSettings {
                is_restricted: cuda.isolation == GpuIsolation::Process,
                driver: cuda.driver.clone(),
                memory_percent: cuda.memory_percent,
                timeout: cuda.timeout,
                msm_scalars_min: cuda.msm_min,
                ntt_elements_min: cuda.ntt_min,
                threads: config.threads,
                busy_poll: config.server.busy_poll,
            },
            spread: SpreadPolicy::default(),
        };
        Engines::on_workers(settings, cpu, oracle, cuda.pinned_bytes).map_err(|none| NoGpu {
            reason: none.reason,
            is_required,
            host_has_gpus: none.is_on_a_gpu_host,
        })
    }

    fn in_this_process(
        cuda: &CudaSettings,
        cpu: CpuEngine,
        oracle: ArkworksEngine,
        loss_handler: &Arc<GpuLossHandler>,
    ) -> Result<Engines, NoGpu> {
        let refuse = |unavailable: GpuUnavailable| {
            report(0, unavailable.left_out());
            NoGpu {
                reason: unavailable.to_string(),
                is_required: cuda.devices_min > 0,
                host_has_gpus: unavailable.is_on_a_gpu_host(),
            }
        };
        let engine = open_engine(cuda, cpu, loss_handler).map_err(refuse)?;
        report(engine.gpu_count(), engine.left_out());
        let reason = engine.summary();
        Ok(Engines::on_gpus(engine, oracle, reason, cuda.pinned_bytes))
    }

    /// Logs the GPUs that are left out, and counts them and the `used` ones.
    fn report(used: usize, left_out: &[UnusableDevice]) {
        // The reason of a host's only GPU is logged later, as the reason for the choice.
        if used + left_out.len() > 1 {
            for UnusableDevice { index, reason } in left_out {
                warn!(device = index, %reason, "a GPU is left out");
            }
        }
        telemetry::devices(used, 0, left_out.len());
    }

    fn open_engine(
        cuda: &CudaSettings,
        cpu: CpuEngine,
        loss_handler: &Arc<GpuLossHandler>,
    ) -> Result<CudaEngine, GpuUnavailable> {
        let selection =
            DeviceSelection { driver: cuda.driver.clone(), devices: cuda.devices.clone() };
        let loss_handler = loss_handler.clone();
        let options = OpenOptions {
            memory_percent: cuda.memory_percent,
            memory_wait: SERVER_MEMORY_WAIT,
            arena_bytes_min: None,
            timeout: cuda.timeout,
            on_fault: Arc::new(move |fault| on_fault(fault, &loss_handler)),
            policy: DevicePolicy::default(),
        };
        let policy = GpuPolicy {
            msm_scalars_min: cuda.msm_min,
            ntt_elements_min: cuda.ntt_min,
            integer_limbs_min: INTEGER_LIMBS_MIN,
            ..GpuPolicy::default()
        };
        CudaEngine::new(cpu, open_devices(&selection, &options)?, policy)
    }

    /// A process cannot recover a lost GPU: it answers its jobs with UNAVAILABLE and exits, so that
    /// its supervisor restarts it.
    fn on_fault(fault: &DeviceFault, loss_handler: &GpuLossHandler) {
        let class = fault.class();
        telemetry::count_device_fault(class.name());
        if class != FaultClass::Fatal {
            return;
        }
        let Some(drainer) = loss_handler.drainer.get() else { return };
        if let DeviceFault::Hang(_) = fault {
            // Copies may be under way: no job's memory may be used again, not even for an answer.
            // So the audit log is not written to its end.
            error!(%fault, "a GPU hangs: exiting, restart the daemon");
            exit_without_handlers(SOFTWARE.into());
        }
        loss_handler.lost.store(true, Ordering::Release);
        drainer.drain(Some(FAULT_DRAIN_GRACE));
        exit_later(FAULT_DRAIN_GRACE, SOFTWARE.into(), || {
            telemetry::close_audit_log();
            error!("a GPU is lost: exiting, restart the daemon");
        });
    }
}
