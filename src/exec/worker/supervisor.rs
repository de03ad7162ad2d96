//! Starts the workers of a pool, and replaces those that end.

use std::{
    io,
    process::{Child, ExitStatus},
    sync::{Arc, Weak},
    thread,
    time::{Duration, Instant},
};

use tracing::{error, info, warn};

use super::{
    message::{HUNG_GPU, LOST_GPU},
    pool::{SlotState, WorkerPool},
    settings::WorkerPoolSettings,
    start::{StartFailure, start_worker, wanted_devices},
};
use crate::{engine::cuda::FaultClass, telemetry};

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
    let gpus = first.iter().map(|ready| ready.worker.facts.clone()).collect();
    let pool = Arc::new(WorkerPool::new(settings, gpus, left_out.len()));
    for (slot, ready) in first.into_iter().enumerate() {
        let child = pool.publish(slot, ready);
        let pool = Arc::downgrade(&pool);
        let supervise = move || Supervisor::new(pool, slot).run(child);
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
    /// Workers in a row that were soon lost, or could not be started.
    losses: u32,
}

impl Supervisor {
    fn new(pool: Weak<WorkerPool>, slot: usize) -> Self {
        Self { pool, slot, losses: 0 }
    }

    fn run(mut self, first: Child) {
        let (mut child, mut started) = (Some(first), Instant::now());
        loop {
            if let Some(mut child) = child.take() {
                let status = child.wait();
                let Some(pool) = self.open_pool() else { return };
                let (device, reason) = (pool.gpus()[self.slot].index, end_reason(status));
                error!(device, reason, "a worker ended: it is replaced, and its jobs run again");
                telemetry::count_worker_restart();
                pool.mark_lost(self.slot);
            }
            let lost = Instant::now();
            let pause = self.pause_after(lost.duration_since(started));
            if !pause.is_zero() && !self.wait(pause) {
                return;
            }
            let Some(pool) = self.open_pool() else { return };
            let device = pool.gpus()[self.slot].index;
            match start_worker(pool.settings(), device) {
                Ok(worker) => {
                    child = Some(pool.publish(self.slot, worker));
                    started = Instant::now();
                    let ms = lost.elapsed().as_millis() as u64;
                    info!(device, ms, "a worker was replaced");
                }
                Err(StartFailure { reason, .. }) => {
                    warn!(device, reason, "a worker cannot be started");
                    started = Instant::now();
                }
            }
        }
    }

    fn open_pool(&self) -> Option<Arc<WorkerPool>> {
        self.pool.upgrade().filter(|pool| pool.is_open())
    }

    /// How long the device stays in quarantine after the loss of a worker that had served for this
    /// long.
    fn pause_after(&mut self, served: Duration) -> Duration {
        self.losses = if served > STABLE_AFTER { 0 } else { self.losses + 1 };
        match self.losses.checked_sub(LOSSES_MAX + 1) {
            None => Duration::ZERO,
            Some(doublings) => FIRST_PAUSE
                .saturating_mul(1_u32.checked_shl(doublings).unwrap_or(u32::MAX))
                .min(LONGEST_PAUSE),
        }
    }

    /// Puts the device into quarantine. False if the pool is closed meanwhile.
    fn wait(&self, pause: Duration) -> bool {
        let end = Instant::now() + pause;
        if let Some(pool) = self.open_pool() {
            let device = pool.gpus()[self.slot].index;
            let (pause_ms, reason) = (pause.as_millis() as u64, "it has lost too many workers");
            warn!(device, pause_ms, losses = self.losses, reason, "a device is in quarantine");
            telemetry::count_quarantine();
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
            telemetry::count_worker_timeout();
            "its GPU did not finish its work in time".to_owned()
        }
        _ => status.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_loses_many_workers_pauses_ever_longer_until_one_has_served_for_a_while() {
        let mut supervisor = Supervisor::new(Weak::new(), 0);
        let mut pause_ms = |served_s| {
            let pause = supervisor.pause_after(Duration::from_secs(served_s));
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
