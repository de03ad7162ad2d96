//! Periodic work: drops idle uploads and unmapped regions, and sets gauges.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use tokio::time::{Instant, MissedTickBehavior};

use super::{pace::lateness, state::ServerState};
use crate::telemetry;

const HOUSEKEEPING_INTERVAL: Duration = Duration::from_millis(500);

/// Ticks between updates of the GPU gauges: NVML takes milliseconds.
const DEVICE_GAUGE_TICKS: u32 = 20;

pub async fn run(state: Arc<ServerState>) {
    let mut interval = tokio::time::interval(HOUSEKEEPING_INTERVAL);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for ticks in 0_u32.. {
        let due = interval.tick().await;
        let late = lateness(due, Instant::now()).unwrap_or_default();
        // A panic is reported by its hook. Without this task, uploads would stay forever.
        let _panicked = catch_unwind(AssertUnwindSafe(|| tick(&state, ticks, late)));
    }
}

/// `late` is how late the server is: its clients could not send or read meanwhile.
fn tick(state: &ServerState, ticks: u32, late: Duration) {
    if ticks.is_multiple_of(DEVICE_GAUGE_TICKS) {
        let executor = state.compute.executor.clone();
        tokio::task::spawn_blocking(move || {
            let gpus = executor.devices().into_iter().filter_map(|device| device.gpu);
            gpus.for_each(|gpu| telemetry::device(&gpu));
        });
    }
    let settings = &state.settings;
    let swept = state.uploads.drop_idle(settings.idle_timeout + late, settings.upload_ttl);
    if swept > 0 {
        tracing::info!(swept, "dropped idle uploads");
    }
    state.unread.drop_idle(late);
    state.regions.drop_unmapped();
    telemetry::set_queued_jobs(state.scheduler.queued() as u64);
    let (in_flight, spare) = (state.budget.bytes.used(), state.payloads.spare_bytes());
    telemetry::payload_memory(in_flight, spare, state.regions.bytes());
    telemetry::stored(state.bases.budget().used(), state.bases.slots().used());
    telemetry::connections(state.connections.used());
}
