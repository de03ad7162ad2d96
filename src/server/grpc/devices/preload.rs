//! Loads bases on devices before the server is ready.

use std::sync::Arc;

use tracing::{info, warn};

use super::{preload_file::PreloadEntry, residency::TenantBases};
use crate::grpc::state::ServerState;
use crate::{
    error::{Error, FieldProblem, Result},
    telemetry,
};

/// Loads the bases of the file on devices, until the server drains. What cannot be loaded is logged
/// and counted.
pub async fn run(state: &Arc<ServerState>) {
    if state.preload.is_empty() {
        return;
    }
    if state.compute.executor.bases_devices().is_empty() {
        warn!("no GPU is used: no bases are preloaded");
        return telemetry::PRELOAD_FAILURES.set(state.preload.len() as u64);
    }
    let mut failures = 0;
    for entry in &state.preload {
        if state.drain.is_draining() {
            return;
        }
        if let Err(error) = load(state, entry).await {
            let id = hex::encode(entry.id.0);
            let tenant = &entry.tenant;
            warn!(id, %tenant, %error, "bases cannot be preloaded");
            failures += 1;
        }
    }
    telemetry::PRELOAD_FAILURES.set(failures);
    info!(entries = state.preload.len(), failures, "bases are preloaded");
}

async fn load(state: &Arc<ServerState>, entry: &PreloadEntry) -> Result<()> {
    let tenant = state.tenants.owner(&entry.tenant);
    let bases = TenantBases::find(state, &tenant, entry.id)?;
    let all = state.compute.executor.bases_devices();
    let is_wanted = |index: &u32| entry.devices.is_empty() || entry.devices.contains(index);
    let devices: Vec<_> = all.iter().map(|device| device.index).filter(is_wanted).collect();
    let is_missing = |index: &u32| !devices.contains(index);
    if let Some(at) = entry.devices.iter().position(is_missing) {
        return Err(Error::element("devices", at as u64, FieldProblem::OutOfRange));
    }
    bases.change(entry.action, &devices).await.map(drop)
}
