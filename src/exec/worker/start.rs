//! Starts worker processes.

use std::{io, process::Child, time::Duration};

use super::{
    message::{WorkerHello, WorkerTask},
    process::{LiveWorker, StartedWorker},
    settings::WorkerPoolSettings,
};
use crate::engine::cuda::GpuFacts;

/// Time to open and test a GPU: the self-test of a slow one takes seconds.
const START_TIMEOUT: Duration = Duration::from_secs(300);

/// A worker with its process.
pub struct ReadyWorker {
    pub worker: LiveWorker,
    pub child: Child,
}

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
    if !settings.devices.is_empty() {
        return Ok(settings.devices.clone());
    }
    let task = WorkerTask::CountDevices(settings.worker.driver.clone());
    let failed =
        |error: io::Error| StartFailure::from(format!("a worker cannot be started: {error}"));
    let mut worker = StartedWorker::start(&settings.command, &task).map_err(failed)?;
    let hello = worker.hello(START_TIMEOUT);
    worker.kill();
    let _status = worker.child.wait();
    match hello.map_err(failed)? {
        WorkerHello::Counted(count) => Ok((0..count).collect()),
        hello => Err(StartFailure::of(hello)),
    }
}

/// Starts a worker and waits until it has opened and tested its GPU.
pub fn start_worker(
    settings: &WorkerPoolSettings,
    device: u32,
) -> Result<ReadyWorker, StartFailure> {
    let failed = |error: io::Error| format!("its worker failed: {error}").into();
    let task = WorkerTask::Serve(device, Box::new(settings.worker.clone()));
    let mut started = StartedWorker::start(&settings.command, &task).map_err(failed)?;
    let ready: io::Result<Result<Box<GpuFacts>, _>> =
        started.hello(START_TIMEOUT).map(|hello| match hello {
            WorkerHello::Ready(facts) => Ok(facts),
            hello => Err(StartFailure::of(hello)),
        });
    match ready {
        Ok(Ok(facts)) => {
            let (worker, child) = started.into_live(*facts, &settings.worker);
            Ok(ReadyWorker { worker, child })
        }
        not_ready => {
            started.kill();
            let _status = started.child.wait();
            Err(match not_ready {
                Ok(Err(failure)) => failure,
                Err(error) => failed(error),
                Ok(Ok(_)) => "the worker is not ready".to_owned().into(),
            })
        }
    }
}
