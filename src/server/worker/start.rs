//! Starts worker processes.

use std::{io, time::Duration};

use super::{
    message::{ServeTask, WorkerHello, WorkerTask},
    process::{ReadyWorker, StartedWorker},
    settings::WorkerPoolSettings,
};

/// Time to open and test a GPU: the self-test of a slow one takes seconds.
const START_TIMEOUT: Duration = Duration::from_secs(300);

/// Why a worker does not serve.
pub struct StartFailure {
    pub reason: String,
    /// Whether the host has GPUs.
    pub is_on_a_gpu_host: bool,
}

impl From<String> for StartFailure {
    fn from(reason: String) -> Self {
        Self { reason, is_on_a_gpu_host: true }
    }
}

impl StartFailure {
    fn of(hello: WorkerHello) -> Self {
        match hello {
            WorkerHello::Unusable { reason, is_on_a_gpu_host } => Self { reason, is_on_a_gpu_host },
            _ => "the worker's first message was unexpected".to_owned().into(),
        }
    }
}

/// The devices that the settings select: all that the driver has, unless they name some.
pub fn wanted_devices(settings: &WorkerPoolSettings) -> Result<Vec<u32>, StartFailure> {
    if settings.devices.is_empty() {
        return count_devices(settings).map(|count| (0..count).collect());
    }
    if settings.worker.is_restricted {
        // If it fails, the workers will tell the reason.
        let _count = count_devices(settings);
    }
    Ok(settings.devices.clone())
}

/// The number of devices. The process that asks the driver keeps its rights: the driver may create
/// the files of devices, for which workers lack the rights.
fn count_devices(settings: &WorkerPoolSettings) -> Result<u32, StartFailure> {
    let task = WorkerTask::CountDevices(settings.worker.driver.clone());
    let failed =
        |error: io::Error| StartFailure::from(format!("a worker cannot be started: {error}"));
    let worker = StartedWorker::start(&settings.command, &task).map_err(failed)?;
    let hello = worker.hello(START_TIMEOUT);
    worker.end();
    match hello.map_err(failed)? {
        WorkerHello::Counted(count) => Ok(count),
        hello => Err(StartFailure::of(hello)),
    }
}

/// Starts a worker and waits until it has opened and tested its GPU.
pub fn start_worker(
    settings: &WorkerPoolSettings,
    device: u32,
) -> Result<ReadyWorker, StartFailure> {
    wait_until_ready(begin_start(settings, device, None)?, settings)
}

/// Starts a worker, which opens and tests its GPU. It waits a while for memory if its arena would
/// have fewer than `arena_bytes_min` bytes.
pub fn begin_start(
    settings: &WorkerPoolSettings,
    device: u32,
    arena_bytes_min: Option<u64>,
) -> Result<StartedWorker, StartFailure> {
    let task = ServeTask { device, arena_bytes_min, settings: settings.worker.clone() };
    StartedWorker::start(&settings.command, &WorkerTask::Serve(Box::new(task))).map_err(failed)
}

/// Waits until a worker has opened and tested its GPU. One that fails has ended.
pub fn wait_until_ready(
    started: StartedWorker,
    settings: &WorkerPoolSettings,
) -> Result<ReadyWorker, StartFailure> {
    let failure = match started.hello(START_TIMEOUT) {
        Ok(WorkerHello::Ready(facts)) => return Ok(started.into_ready(*facts, &settings.worker)),
        Ok(hello) => StartFailure::of(hello),
        Err(error) => failed(error),
    };
    started.end();
    Err(failure)
}

fn failed(error: io::Error) -> StartFailure {
    format!("its worker failed: {error}").into()
}
