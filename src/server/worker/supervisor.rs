//! Starts the workers of a pool, and replaces those that end.

use std::{
    io,
    process::ExitStatus,
    sync::{Arc, Weak},
    thread,
    time::{Duration, Instant},
};

use tracing::{error, info, warn};

use super::{
    message::{HUNG_GPU, LOST_GPU},
    pool::{SlotState, WorkerPool},
    process::{ReadyWorker, StartedWorker, WorkerProcess},
    settings::WorkerPoolSettings,
    start::{StartFailure, begin_start, start_worker, wait_until_ready, wanted_devices},
};
use crate::{
    engine::cuda::{FaultClass, GpuFacts},
    telemetry,
};

/// A device that has lost more workers in a row than this is put into quarantine.
const LOSSES_MAX: u32 = 5;

/// A worker that has served for this long ends a row of losses.
const STABLE_AFTER: Duration = Duration::from_secs(60);

/// The first quarantine. Each further loss doubles it.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest quarantine.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The interval at which a pausing supervisor checks whether the pool is closed.
const CLOSE_CHECK: Duration = Duration::from_millis(200);

/// Why no worker serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoWorkers {
    /// The reasons, in sentences.
    pub reason: String,
    /// Whether the host has GPUs.
    pub is_on_a_gpu_host: bool,
}

/// A device that is not used.
struct LeftOutDevice {
    device: u32,
    reason: String,
}

/// Starts a worker for each device, at the same time. A device that cannot be used is left out.
///
/// Errors: no device can be used.
pub fn start_pool(settings: WorkerPoolSettings) -> Result<Arc<WorkerPool>, NoWorkers> {
    let devices = wanted_devices(&settings).map_err(|failure| NoWorkers {
        reason: failure.reason,
        is_on_a_gpu_host: failure.is_on_a_gpu_host,
    })?;
    let start = |device| {
        let settings = &settings;
        move || start_worker(settings, device)
    };
    let started = thread::scope(|scope| {
        let starts: Vec<_> = devices.iter().map(|device| scope.spawn(start(*device))).collect();
        let started = starts.into_iter().map(|start| start.join());
        let no_answer = || StartFailure::from("its start panicked".to_owned());
        started.map(|start| start.unwrap_or_else(|_| Err(no_answer()))).collect::<Vec<_>>()
    });
    let mut first = Vec::new();
    let mut left_out = Vec::new();
    let mut is_on_a_gpu_host = false;
    for (device, started) in devices.into_iter().zip(started) {
        match started {
            Ok(worker) => first.push(worker),
            Err(StartFailure { reason, is_on_a_gpu_host: has_gpus }) => {
                is_on_a_gpu_host |= has_gpus;
                left_out.push(LeftOutDevice { device, reason });
            }
        }
    }
    // The reason of a host's only GPU is logged later, as the reason for the choice.
    if first.len() + left_out.len() > 1 {
        for LeftOutDevice { device, reason } in &left_out {
            warn!(device, reason, "a GPU is left out");
        }
    }
    if !left_out.is_empty() && settings.worker.is_restricted {
        info!(
            "workers open few files and make few system calls: if a driver needs more, set \
             gpu_isolation = unrestricted"
        );
    }
    if first.is_empty() {
        telemetry::devices(0, 0, left_out.len());
        let reasons: Vec<_> = left_out.iter().map(|left_out| left_out.reason.clone()).collect();
        return Err(NoWorkers { reason: reasons.join("; "), is_on_a_gpu_host });
    }
    let gpus = first.iter().map(|ready| ready.worker.facts.clone()).collect();
    let pool = Arc::new(WorkerPool::new(settings, gpus, left_out.len()));
    for (slot, ready) in first.into_iter().enumerate() {
        let process = pool.publish(slot, ready);
        let supervisor = Supervisor::new(&pool, slot);
        let supervise = move || supervisor.run(process);
        let thread = thread::Builder::new().name("capstan-supervisor".into());
        if let Err(error) = thread.spawn(supervise) {
            error!(%error, "a worker has no supervisor: it is not replaced when it ends");
        }
    }
    pool.count_devices();
    Ok(pool)
}

/// Replaces the worker of a slot when it is lost.
struct Supervisor {
    pool: Weak<WorkerPool>,
    settings: WorkerPoolSettings,
    slot: usize,
    /// The device, as its first worker opened it.
    gpu: GpuFacts,
    losses: LossRow,
}

impl Supervisor {
    fn new(pool: &Arc<WorkerPool>, slot: usize) -> Self {
        let settings = pool.settings().clone();
        let gpu = pool.gpus()[slot].clone();
        Self { pool: Arc::downgrade(pool), settings, slot, gpu, losses: LossRow::default() }
    }

    fn run(mut self, first: WorkerProcess) {
        let mut serving = Some(first);
        let mut started = Instant::now();
        loop {
            if let Some(process) = &mut serving {
                process.wait_for_loss();
            }
            let lost = Instant::now();
            let pause = self.losses.pause_after(lost.duration_since(started));
            let early = serving.take().and_then(|process| self.wait_for_end(process, pause));
            if !pause.is_zero() && !self.wait(pause) {
                return;
            }
            let ready = match early {
                Some(ready) => Ok(ready),
                None if self.open_pool().is_none() => return,
                None => {
                    self.begin_start().and_then(|start| wait_until_ready(start, &self.settings))
                }
            };
            let ready = ready.and_then(|ready| self.same_device(ready));
            let device = self.gpu.index;
            started = Instant::now();
            match (ready, self.open_pool()) {
                (Ok(ready), Some(pool)) => {
                    serving = Some(pool.publish(self.slot, ready));
                    let ms = lost.elapsed().as_millis() as u64;
                    info!(device, ms, "a worker was replaced");
                }
                (Ok(ready), None) => return ready.process.end(),
                (Err(StartFailure { reason, .. }), _) => {
                    warn!(device, reason, "a worker cannot be started");
                }
            }
        }
    }

    /// Waits until a lost worker has ended: until then, its device may write to the memory of its
    /// runs. Starts its successor meanwhile, unless the device pauses. Returns that if it is ready.
    fn wait_for_end(&self, mut lost: WorkerProcess, pause: Duration) -> Option<ReadyWorker> {
        let successor = self.open_pool().and_then(|pool| {
            pool.mark_lost(self.slot);
            pause.is_zero().then(|| self.begin_start().ok()).flatten()
        });
        let status = lost.wait();
        let device = self.gpu.index;
        if self.open_pool().is_none() {
            successor.into_iter().for_each(StartedWorker::end);
            return None;
        }
        let reason = end_reason(status);
        error!(device, reason, "a worker ended: it is replaced, and its jobs run again");
        telemetry::WORKER_RESTARTS_TOTAL.add(1);
        // What fails here may succeed now: the old process may have had the device for itself, or
        // most of its memory for longer than the successor waits.
        let reason = match wait_until_ready(successor?, &self.settings) {
            Ok(ready) if ready.worker.facts.arena_bytes >= self.arena_bytes_min() => {
                return Some(ready);
            }
            Ok(ready) => {
                ready.process.end();
                "it has too little memory".to_owned()
            }
            Err(StartFailure { reason, .. }) => reason,
        };
        info!(device, reason, "a worker that was started early is started again");
        None
    }

    /// Refuses a worker whose device is not like that of the first one, on which plans and the
    /// access to memory depend.
    fn same_device(&self, ready: ReadyWorker) -> Result<ReadyWorker, StartFailure> {
        let GpuFacts { name, limits, memory_bytes, .. } = &ready.worker.facts;
        let mut limits = *limits;
        // Clocks can be set.
        limits.clock_khz = self.gpu.limits.clock_khz;
        let own = (&self.gpu.name, self.gpu.limits, self.gpu.memory_bytes);
        if (name, limits, *memory_bytes) == own {
            return Ok(ready);
        }
        ready.process.end();
        Err("it has another GPU than before: restart the daemon to use it".to_owned().into())
    }

    fn begin_start(&self) -> Result<StartedWorker, StartFailure> {
        begin_start(&self.settings, self.gpu.index, Some(self.arena_bytes_min()))
    }

    /// The least size of a successor's arena.
    fn arena_bytes_min(&self) -> u64 {
        self.gpu.arena_bytes / 16 * 15
    }

    fn open_pool(&self) -> Option<Arc<WorkerPool>> {
        self.pool.upgrade().filter(|pool| pool.is_open())
    }

    /// Puts the device into quarantine. False if the pool is closed meanwhile.
    fn wait(&self, pause: Duration) -> bool {
        let end = Instant::now() + pause;
        if let Some(pool) = self.open_pool() {
            let device = self.gpu.index;
            let losses = self.losses.0;
            let pause_ms = pause.as_millis() as u64;
            let reason = "it has lost too many workers";
            warn!(device, pause_ms, losses, reason, "a device is in quarantine");
            telemetry::QUARANTINES_TOTAL.add(1);
            pool.set(self.slot, SlotState::Quarantined);
        }
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            // Gives up its reference after each interval, so that the pool can be dropped.
            let Some(pool) = self.open_pool() else { return false };
            pool.wait_while_open(left.min(CLOSE_CHECK));
        }
        true
    }
}

/// Workers of a device in a row that were soon lost, or could not be started.
#[derive(Default)]
struct LossRow(u32);

impl LossRow {
    /// How long the device stays in quarantine after the loss of a worker that had served for this
    /// long.
    fn pause_after(&mut self, served: Duration) -> Duration {
        self.0 = if served > STABLE_AFTER { 0 } else { self.0 + 1 };
        match self.0.checked_sub(LOSSES_MAX + 1) {
            None => Duration::ZERO,
            Some(doublings) => FIRST_PAUSE
                .saturating_mul(1_u32.checked_shl(doublings).unwrap_or(u32::MAX))
                .min(LONGEST_PAUSE),
        }
    }
}

/// Why a worker ended. Counts its fault: the worker ended before it could report it.
fn end_reason(status: io::Result<ExitStatus>) -> String {
    let status = match status {
        Ok(status) => status,
        Err(error) => return error.to_string(),
    };
    let code = status.code();
    if matches!(code, Some(LOST_GPU | HUNG_GPU)) {
        telemetry::count_device_fault(FaultClass::Fatal.name());
    }
    match code {
        Some(LOST_GPU) => "a fatal fault of its GPU".to_owned(),
        Some(HUNG_GPU) => {
            telemetry::WORKER_TIMEOUTS_TOTAL.add(1);
            "its GPU did not finish its work in time".to_owned()
        }
        _ => status.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::{env, fs, os::fd::AsFd, os::unix::net::UnixStream, path::Path};

    use super::*;
    use crate::{
        device::DeviceLimits,
        worker::{
            SpreadPolicy, WorkerCommand, WorkerSettings,
            message::{ControlReply, ControlRequest, WorkerHello, WorkerTask},
            socket::{self, Received},
        },
    };

    /// The test that is a worker.
    const WORKER_PROCESS: &str = "worker::supervisor::tests::worker_process";

    #[derive(Clone, Copy)]
    enum FakeStart {
        Serves,
        Fails,
        HasLittleMemory,
        IsAnotherDevice,
    }

    use FakeStart::{Fails, HasLittleMemory, IsAnotherDevice, Serves};

    /// What the processes do, in the order of their start.
    const STARTS: [FakeStart; 6] =
        [Serves, Fails, Serves, HasLittleMemory, IsAnotherDevice, Serves];

    /// A worker process without a GPU, if this program was started for it alone. The path of its
    /// driver is a file with a byte for each start.
    #[test]
    fn worker_process() {
        if env::args().any(|argument| argument == WORKER_PROCESS) {
            let _no_server = serve();
        }
    }

    fn serve() -> io::Result<()> {
        let control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        let Received { message, file: _liveness } = socket::receive(&control)?;
        let task = match message {
            WorkerTask::CountDevices(_) => {
                return socket::send(&control, &WorkerHello::Counted(1), None);
            }
            WorkerTask::Serve(task) => task,
        };
        let starts = task.settings.driver.as_deref().unwrap();
        let mut before = fs::read(starts).unwrap();
        let start = STARTS[before.len()];
        let arena_bytes = match start {
            Serves | IsAnotherDevice => 100 << 20,
            HasLittleMemory => 10 << 20,
            Fails => 0,
        };
        before.push(0);
        fs::write(starts, before)?;
        if arena_bytes == 0 {
            return Ok(());
        }
        let pins_read_only = !matches!(start, IsAnotherDevice);
        let name = String::new();
        let limits = DeviceLimits { pins_read_only, ..DeviceLimits::H200 };
        let facts =
            GpuFacts { index: task.device, name, limits, memory_bytes: arena_bytes, arena_bytes };
        socket::send(&control, &WorkerHello::Ready(Box::new(facts)), None)?;
        loop {
            let _request = socket::receive::<ControlRequest>(&control)?;
            socket::send(&control, &ControlReply::Done, None)?;
        }
    }

    fn settings(starts: &Path) -> WorkerPoolSettings {
        let arguments = ["--exact", WORKER_PROCESS, "--nocapture"];
        let arguments = arguments.map(Into::into).to_vec();
        WorkerPoolSettings {
            command: WorkerCommand { program: env::current_exe().unwrap(), arguments },
            devices: vec![0],
            worker: WorkerSettings {
                is_restricted: true,
                driver: Some(starts.to_owned()),
                memory_percent: 1,
                timeout: Duration::from_secs(60),
                msm_scalars_min: 0,
                ntt_elements_min: 0,
                threads: 1,
                busy_poll: Duration::ZERO,
            },
            spread: SpreadPolicy::default(),
        }
    }

    /// While its predecessor ends, a successor may find the device taken, or most of its memory.
    #[test]
    fn a_successor_that_starts_too_early_is_started_again() {
        let folder = tempfile::tempdir().unwrap();
        let starts = folder.path().join("starts");
        fs::write(&starts, []).unwrap();
        let pool = start_pool(settings(&starts)).unwrap_or_else(|none| panic!("{none:?}"));
        for started in [3, 6] {
            pool.live()[0].link.end();
            while pool.live().is_empty() {
                thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(fs::read(&starts).unwrap().len(), started);
        }
    }

    #[test]
    fn a_device_that_loses_many_workers_pauses_ever_longer_until_one_has_served_for_a_while() {
        let mut losses = LossRow::default();
        let mut pause_ms = |served_s| {
            let pause = losses.pause_after(Duration::from_secs(served_s));
            pause.as_millis()
        };
        let pauses: Vec<_> = (0..14).map(|_| pause_ms(1)).collect();
        let expected = [0, 0, 0, 0, 0, 500, 1000, 2000, 4000, 8000, 16_000, 32_000];
        assert_eq!(pauses[..12], expected);
        assert_eq!(pauses[12..], [60_000; 2]);
        assert_eq!(pause_ms(61), 0);
        assert_eq!(pause_ms(1), 0);
        let many: Vec<_> = (0..100).map(|_| pause_ms(0)).collect();
        assert_eq!(many.last(), Some(&60_000));
    }
}
