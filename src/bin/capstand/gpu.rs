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

use super::{SOFTWARE, UNAVAILABLE, logged};

/// The engine, and why it is this one, in a sentence.
///
/// Errors: the exit code; the cause is in the log.
pub fn engine(config: &Config, lifeline: &Lifeline) -> Result<(Arc<dyn Engine>, String), u8> {
    let cpu = || CpuEngine::new(config.threads).map_err(logged(SOFTWARE));
    if config.engine == EngineChoice::Cpu {
        return Ok((Arc::new(cpu()?), "the configuration says so".into()));
    }
    let opened = match cuda::open(config, lifeline) {
        Ok(gpus) => cuda::engine(config, cpu()?, gpus),
        Err(why) => Err(why),
    };
    match opened {
        Ok(engine) => {
            let reason = "GPUs passed their self-test: they do MSMs, NTTs and checks of points";
            Ok((engine, reason.into()))
        }
        Err(why) if config.engine == EngineChoice::Cuda => Err(logged(UNAVAILABLE)(why)),
        Err(why) => Ok((Arc::new(cpu()?), why)),
    }
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
        device::{self, Fault, Gpu, Options, Wanted},
        engine::cuda::{CudaEngine, Least},
        telemetry,
    };
    use tracing::error;

    use super::{Arc, Config, CpuEngine, Engine, Lifeline, Ordering, SOFTWARE};

    /// Time for the answers to leave; whatever the GPU was to do is lost.
    const FAREWELL: Duration = Duration::from_millis(500);

    /// The GPUs, tested, or why there are none.
    pub fn open(config: &Config, lifeline: &Lifeline) -> Result<Vec<Gpu>, String> {
        let cuda = &config.cuda;
        let wanted = Wanted { driver: cuda.driver.clone(), devices: cuda.devices.clone() };
        let lifeline = lifeline.clone();
        let options = Options {
            memory_percent: cuda.memory_percent,
            patience: cuda.timeout,
            on_fault: Arc::new(move |fault| met(fault, &lifeline)),
        };
        device::open(&wanted, &options).map_err(|why| why.to_string())
    }

    /// The engine on them.
    pub fn engine(
        config: &Config,
        cpu: CpuEngine,
        gpus: Vec<Gpu>,
    ) -> Result<Arc<dyn Engine>, String> {
        let Cuda { msm_min: msm_scalars, ntt_min: ntt_elements, pinned_bytes, .. } = config.cuda;
        let least = Least { msm_scalars, ntt_elements };
        let engine = CudaEngine::new(cpu, gpus, least).map_err(|why| why.to_string())?;
        engine.pin(pinned_bytes);
        Ok(Arc::new(engine))
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
    use std::convert::Infallible;

    use super::{Arc, Config, CpuEngine, Engine, Lifeline};

    /// There are none in this build.
    pub fn open(_: &Config, _: &Lifeline) -> Result<Infallible, String> {
        Err("this build has no GPU support".into())
    }

    /// Never.
    pub fn engine(_: &Config, _: CpuEngine, gpus: Infallible) -> Result<Arc<dyn Engine>, String> {
        match gpus {}
    }
}
