//! Periodic work: drops idle uploads and unmapped regions, returns freed memory, and sets gauges.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use tokio::time::{Instant, MissedTickBehavior};

use super::{
    connections::{pace::lateness, tls::FileExpiry},
    devices::residency,
    heap::{self, HeapTrim},
    state::ServerState,
};
use crate::telemetry::{self, TenantGauges};

const HOUSEKEEPING_INTERVAL: Duration = Duration::from_millis(500);

/// Ticks between updates of the GPU gauges: NVML takes milliseconds.
const DEVICE_GAUGE_TICKS: u32 = 20;

/// Ticks between looks for pins that devices have lost.
const PIN_TICKS: u32 = 4;

/// Ticks between warnings of certificates that expire: a day.
const EXPIRY_TICKS: u32 = 2 * 86_400;

pub async fn run(state: Arc<ServerState>) {
    let mut heap_trim = HeapTrim::default();
    repeat(HOUSEKEEPING_INTERVAL, |ticks, late| {
        tick(&state, ticks, late);
        let now = Instant::now().into_std();
        if let Some(turn) = heap_trim.next(&state.connections, now) {
            tokio::task::spawn_blocking(move || heap::trim(turn));
        }
    })
    .await;
}

/// Calls `work` with the number of earlier calls and how late the call is, also after a panic.
async fn repeat(interval: Duration, mut work: impl FnMut(u32, Duration)) {
    let mut interval = tokio::time::interval(interval);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for ticks in 0_u32.. {
        let due = interval.tick().await;
        let late = lateness(due, Instant::now()).unwrap_or_default();
        // A panic is reported by its hook. Without this task, uploads would stay forever.
        let _panicked = catch_unwind(AssertUnwindSafe(|| work(ticks, late)));
    }
}

/// `late` is how late the server is: its clients could not send or read meanwhile.
fn tick(state: &Arc<ServerState>, ticks: u32, late: Duration) {
    if ticks.is_multiple_of(DEVICE_GAUGE_TICKS) {
        let executor = state.compute.executor.clone();
        tokio::task::spawn_blocking(move || {
            let gpus = executor.devices().into_iter().filter_map(|device| device.gpu);
            gpus.for_each(|gpu| telemetry::device(&gpu));
        });
    }
    if ticks.is_multiple_of(PIN_TICKS) {
        tokio::spawn(residency::restore_pins(state.clone()));
        state.pins.bytes().for_each(|(device, bytes)| telemetry::pinned_bases(device, bytes));
    }
    if ticks.is_multiple_of(PIN_TICKS) && state.settings.metrics_tenants {
        for tenant in state.tenants.listed() {
            let used = TenantGauges {
                jobs: tenant.jobs.used(),
                bytes_in_flight: tenant.bytes.used(),
                store_bytes: tenant.store_bytes.used(),
                connections: tenant.connections.used(),
            };
            telemetry::tenant(&tenant.name.to_string(), &used);
        }
    }
    let expiries = state.credentials.expiries();
    expiries.iter().for_each(|file| telemetry::certificate_expiry(file.setting, file.expiry));
    if ticks.is_multiple_of(EXPIRY_TICKS) {
        expiries.iter().for_each(FileExpiry::warn);
    }
    let settings = &state.settings;
    let swept = state.uploads.drop_idle(settings.idle_timeout, settings.upload_ttl, late);
    if swept > 0 {
        tracing::info!(swept, "dropped idle uploads");
    }
    state.unread.drop_idle(late);
    let closed = state.unread.close_stalled(late);
    if closed > 0 {
        tracing::info!(closed, "closed connections that do not read their responses");
    }
    state.regions.drop_unmapped();
    telemetry::set_queued_jobs(state.scheduler.queued() as u64);
    let spare = state.inputs.spare_bytes() + state.results.spare_bytes();
    telemetry::payload_memory(state.budget.bytes.used(), spare, state.regions.bytes());
    telemetry::open_calls(state.open_calls.used(), state.health_checks.used());
    telemetry::stored(state.objects.budget().used(), state.objects.slots().used());
    telemetry::connections(state.connections.used());
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn a_panic_does_not_end_the_task() {
        let (done, mut calls) = mpsc::unbounded_channel();
        let task = tokio::spawn(repeat(Duration::from_millis(1), move |ticks, _| {
            assert!(ticks != 0, "the first call panics, for this test");
            // Fails after the test has ended.
            let _ended = done.send(ticks);
        }));
        assert_eq!(calls.recv().await, Some(1));
        task.abort();
    }
}
