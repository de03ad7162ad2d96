//! Starts the workers of a pool, and replaces those that end.

use std::{
    process::Child,
    sync::{Arc, Weak},
    thread,
    time::{Duration, Instant},
};

use tracing::{error, info, warn};

use super::{
    pool::{SlotState, WorkerPool},
    settings::WorkerPoolSettings,
    start::{StartFailure, start_worker, wanted_devices},
};
use crate::telemetry;

/// A worker that has served for this long was not ended by its start.
const STABLE_AFTER: Duration = Duration::from_secs(60);

/// The pause before the next start after several in a row that did not serve for long: the first,
/// doubled each time up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The interval at which a pausing supervisor looks whether the pool is closed.
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
    let (mut first, mut left_out, mut is_on_a_gpu_host) = (Vec::new(), Vec::new(), false);
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
    if first.is_empty() {
        telemetry::devices(0, 0, left_out.len());
        let reasons: Vec<_> = left_out.iter().map(|left_out| left_out.reason.clone()).collect();
        return Err(NoWorkers { reason: reasons.join("; "), is_on_a_gpu_host });
    }
    let gpus = first.iter().map(|ready| ready.worker.gpu.facts.clone()).collect();
    let pool = Arc::new(WorkerPool::new(settings, gpus, left_out.len()));
    for (slot, ready) in first.into_iter().enumerate() {
        let child = pool.publish(slot, ready);
        let pool = Arc::downgrade(&pool);
        let supervise = move || Supervisor { pool, slot, failures: 0 }.run(child);
        let thread = thread::Builder::new().name("capstan-supervisor".into());
        if let Err(error) = thread.spawn(supervise) {
            error!(%error, "a worker has no supervisor: it is not replaced when it ends");
        }
    }
    pool.count_devices();
    Ok(pool)
}

/// Waits for the end of a slot's worker, and replaces it.
struct Supervisor {
    pool: Weak<WorkerPool>,
    slot: usize,
    /// Workers in a row that did not serve for long.
    failures: u32,
}

impl Supervisor {
    fn run(mut self, first: Child) {
        let mut child = Some(first);
        loop {
            let begun = Instant::now();
            if let Some(mut child) = child.take() {
                let status = child.wait();
                let Some(pool) = self.open_pool() else { return };
                let device = pool.gpus()[self.slot].index;
                let status = status.map_or_else(|error| error.to_string(), |s| s.to_string());
                error!(device, status, "a worker ended: it is replaced, and its jobs run again");
                telemetry::count_worker_restart();
                pool.mark_lost(self.slot);
            }
            self.failures = if begun.elapsed() > STABLE_AFTER { 0 } else { self.failures + 1 };
            if !self.pause() {
                return;
            }
            let Some(pool) = self.open_pool() else { return };
            let facts = &pool.gpus()[self.slot];
            match start_worker(pool.settings(), facts.index) {
                Ok(worker) => {
                    let ms = begun.elapsed().as_millis() as u64;
                    info!(device = facts.index, ms, "a worker was replaced");
                    child = Some(pool.publish(self.slot, worker));
                }
                Err(StartFailure { reason, .. }) => {
                    warn!(device = facts.index, reason, "a worker cannot be started");
                }
            }
        }
    }

    fn open_pool(&self) -> Option<Arc<WorkerPool>> {
        self.pool.upgrade().filter(|pool| pool.is_open())
    }

    /// Lets the device rest after several failures. False if the pool is closed meanwhile.
    fn pause(&self) -> bool {
        let doublings = self.failures.saturating_sub(2);
        let pause = FIRST_PAUSE.saturating_mul(1 << doublings.min(16)).min(LONGEST_PAUSE);
        let end = match self.failures {
            0 | 1 => return self.open_pool().is_some(),
            _ => Instant::now() + pause,
        };
        if let Some(pool) = self.open_pool() {
            let device = pool.gpus()[self.slot].index;
            warn!(device, pause_ms = pause.as_millis() as u64, "a device is in quarantine");
            pool.set(self.slot, SlotState::Quarantined);
        }
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            // Without the pool in between, so that it can be dropped.
            let Some(pool) = self.open_pool() else { return false };
            pool.wait_while_open(left.min(CLOSE_CHECK));
        }
        true
    }
}
