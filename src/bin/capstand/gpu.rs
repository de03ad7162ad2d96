//! Which engine, by what the configuration wants and what the machine has; and the end of the
//! process when a GPU is lost.

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

use super::{SOFTWARE, UNAVAILABLE, logged};

/// The engine, and why it is this one, in a sentence.
///
/// Errors: the exit code; the cause is in the log.
pub fn engine(config: &Config, lifeline: &Lifeline) -> Result<(Arc<dyn Engine>, String), u8> {
    let cpu = || CpuEngine::new(config.threads).map_err(logged(SOFTWARE));
    if config.engine == EngineChoice::Cpu {
        return Ok((Arc::new(cpu()?), "the configuration says so".into()));
    }
    match cuda::engine(config, cpu()?, lifeline) {
        Ok((engine, reason)) => Ok((engine, reason)),
        Err(NoGpu { why, .. }) if config.engine == EngineChoice::Cuda => {
            Err(logged(UNAVAILABLE)(why))
        }
        Err(NoGpu { why, is_enforced: true, .. }) => Err(logged(UNAVAILABLE)(why)),
        Err(NoGpu { why, is_on_a_gpu_host, .. }) => {
            if is_on_a_gpu_host {
                warn!(reason = why, "no GPU of this host is used: the CPU does everything");
            }
            Ok((Arc::new(cpu()?), why))
        }
    }
}

/// Why no GPU is used.
struct NoGpu {
    why: String,
    /// Whether the configuration says that the daemon must not start then.
    is_enforced: bool,
    is_on_a_gpu_host: bool,
}

/// What ends the process once it serves. A GPU that fails before that is the start's own business.
#[derive(Clone, Default)]
pub struct Lifeline(Arc<Ends>);

#[derive(Default)]
struct Ends {
    drainer: OnceLock<Drainer>,
    lost: AtomicBool,
}

impl Lifeline {
    /// From now on, the loss of a GPU ends the process.
    pub fn arm(&self, drainer: Drainer) {
        // Armed once, by the one server.
        let _first = self.0.drainer.set(drainer);
    }

    /// What the process ends with, once it has drained.
    ///
    /// Errors: the exit code, where a GPU was lost.
    pub fn ended(&self) -> Result<(), u8> {
        if self.0.lost.load(Ordering::Acquire) { Err(SOFTWARE) } else { Ok(()) }
    }
}

#[cfg(feature = "cuda")]
mod cuda {
    use std::{thread, time::Duration};

    use capstan::{
        config::Cuda,
        device::{self, Fault, LeftOut, OpenOptions, Unusable, Wanted},
        engine::cuda::{CudaEngine, Least},
        telemetry,
    };
    use tracing::{error, warn};

    use super::{Arc, Config, CpuEngine, Engine, Lifeline, NoGpu, Ordering, SOFTWARE};

    /// Time for the answers to leave; whatever the GPU was to do is lost.
    const FAREWELL: Duration = Duration::from_millis(500);

    /// The engine on all GPUs that can be used, and how many these are, in a sentence.
    pub fn engine(
        config: &Config,
        cpu: CpuEngine,
        lifeline: &Lifeline,
    ) -> Result<(Arc<dyn Engine>, String), NoGpu> {
        let cuda = &config.cuda;
        let (wanted, least) = (cuda.devices_min, cuda.devices_min > 0);
        let refuse = |reason: Unusable| {
            report(0, reason.left_out());
            let is_on_a_gpu_host = reason.is_on_a_gpu_host();
            NoGpu { why: reason.to_string(), is_enforced: least, is_on_a_gpu_host }
        };
        let engine = open(cuda, cpu, lifeline).map_err(refuse)?;
        report(engine.gpus(), engine.left_out());
        if (engine.gpus() as u32) < wanted {
            let why = format!("{}; cuda_devices_min is {wanted}", engine.summary());
            return Err(NoGpu { why, is_enforced: true, is_on_a_gpu_host: true });
        }
        engine.pin(cuda.pinned_bytes);
        let reason = engine.summary();
        Ok((Arc::new(engine), reason))
    }

    /// Logs the GPUs that are left out, and counts them and the `used` ones.
    fn report(used: usize, left_out: &[LeftOut]) {
        for LeftOut { index, reason } in left_out {
            warn!(device = index, %reason, "a GPU is left out");
        }
        telemetry::devices(used, left_out.len());
    }

    fn open(cuda: &Cuda, cpu: CpuEngine, lifeline: &Lifeline) -> Result<CudaEngine, Unusable> {
        let wanted = Wanted { driver: cuda.driver.clone(), devices: cuda.devices.clone() };
        let lifeline = lifeline.clone();
        let options = OpenOptions {
            memory_percent: cuda.memory_percent,
            patience: cuda.timeout,
            on_fault: Arc::new(move |fault| met(fault, &lifeline)),
            shared_bytes_max: None,
        };
        let least = Least { msm_scalars: cuda.msm_min, ntt_elements: cuda.ntt_min };
        CudaEngine::new(cpu, device::open(&wanted, &options)?, least)
    }

    /// A lost GPU stays lost for this process, and takes the others with it: whoever supervises it
    /// starts it again. Jobs are answered UNAVAILABLE first.
    fn met(fault: &Fault, lifeline: &Lifeline) {
        let class = fault.class();
        telemetry::device_fault(class.name());
        if class != device::Class::Fatal {
            return;
        }
        let Some(drainer) = lifeline.0.drainer.get() else { return };
        lifeline.0.lost.store(true, Ordering::Release);
        drainer.drain(Some(FAREWELL));
        let end = move || {
            thread::sleep(FAREWELL);
            error!("a GPU is lost: the process ends and should be started again");
            device::quit(SOFTWARE.into());
        };
        if thread::Builder::new().name("capstan-end".into()).spawn(end).is_err() {
            device::quit(SOFTWARE.into());
        }
    }
}

#[cfg(not(feature = "cuda"))]
mod cuda {
    use super::{Arc, Config, CpuEngine, Engine, Lifeline, NoGpu};

    /// There are none in this build.
    pub fn engine(
        config: &Config,
        _: CpuEngine,
        _: &Lifeline,
    ) -> Result<(Arc<dyn Engine>, String), NoGpu> {
        let is_enforced = config.cuda.devices_min > 0;
        let why = "this build has no GPU support".into();
        Err(NoGpu { why, is_enforced, is_on_a_gpu_host: false })
    }
}
