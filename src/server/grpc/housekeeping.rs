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
use crate::telemetry;

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
        for (device, bytes) in state.pins.bytes() {
            telemetry::PINNED_BASES_BYTES.with([device.to_string()]).set(bytes as f64);
        }
    }
    if ticks.is_multiple_of(PIN_TICKS) && state.settings.metrics_tenants {
        for tenant in state.tenants.listed() {
            for (gauge, used) in tenant.gauges() {
                gauge.with([tenant.name.to_string()]).set(used as f64);
            }
        }
    }
    let expiries = state.credentials.expiries();
    for file in &expiries {
        telemetry::CERTIFICATE_EXPIRY.with([file.setting]).set(file.expiry);
    }
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
    telemetry::QUEUED_JOBS.set(state.scheduler.queued() as u64);
    telemetry::IN_FLIGHT_BYTES.set(state.budget.bytes.used());
    telemetry::SPARE_MEMORY_BYTES.set(state.inputs.spare_bytes() + state.results.spare_bytes());
    telemetry::REGION_BYTES.set(state.regions.bytes());
    telemetry::OPEN_CALL_BYTES.set(state.open_calls.used());
    telemetry::HEALTH_CHECK_BYTES.set(state.health_checks.used());
    telemetry::STORE_BYTES.set(state.objects.budget().used());
    telemetry::STORE_OBJECTS.set(state.objects.slots().used());
    telemetry::CONNECTIONS.set(state.connections.used());
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
