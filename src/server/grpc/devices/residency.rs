//! Warms, pins, unpins and evicts bases on devices, for calls and for the server itself.

use std::{sync::Arc, time::Instant};

use tokio::task::spawn_blocking;
use tracing::{info, warn};

use super::{
    pins::{Pin, PinKey},
    residency_snapshot::ResidencySnapshot,
};
use crate::grpc::{calls::call::CallContext, state::ServerState};
use crate::{
    curve::points::Bases,
    engine::{DeviceResidency, JobControl, ResidencyChange},
    error::{EngineError, Error, FieldProblem, Result},
    jobs::{JobOwner, JobPriority, ResidencyJob},
    store::{ObjectData, StoredObject},
    telemetry,
    tenant::{DeviceTimeBudget, Tenant},
    wire::decode::{ObjectId, ResidencyAction, ResidencySpec},
};

/// What the devices hold now, apart from those that do not answer in time.
pub async fn snapshot(state: &ServerState) -> ResidencySnapshot {
    state.residency.snapshot(&state.compute.executor).await
}

/// Like [`snapshot`], for one object. Devices are asked only if it can be on some.
pub async fn snapshot_for(state: &ServerState, object: &StoredObject) -> ResidencySnapshot {
    match &object.data {
        ObjectData::Bases(_) => snapshot(state).await,
        ObjectData::Matrix(_) => ResidencySnapshot::default(),
    }
}

/// Bases of a tenant, and who changes where they reside.
pub struct TenantBases {
    pub state: Arc<ServerState>,
    pub tenant: Arc<Tenant>,
    pub id: ObjectId,
    bases: Bases,
    owner: JobOwner,
    deadline: Option<Instant>,
    /// Charged for changes; `None` if the server makes them.
    device_time: Option<Arc<DeviceTimeBudget>>,
}

impl TenantBases {
    /// Bases whose residency the server changes, at nobody's expense.
    ///
    /// Errors: those of the store.
    pub fn find(state: &Arc<ServerState>, tenant: &Arc<Tenant>, id: ObjectId) -> Result<Self> {
        let bases = state.objects.bases(tenant.id, id)?;
        let weight = tenant.weight();
        let priority = JobPriority::default();
        let owner = JobOwner { tenant: tenant.id, weight, priority };
        let state = state.clone();
        let tenant = tenant.clone();
        Ok(Self { state, tenant, id, bases, owner, deadline: None, device_time: None })
    }

    fn key(&self, device: u32) -> PinKey {
        PinKey { tenant: self.tenant.id, id: self.id, device }
    }

    async fn run(&self, device: u32, change: ResidencyChange) -> Result<DeviceResidency> {
        // Unpin and evict are quick, and they undo a late call, so they have no deadline.
        let deadline = match change {
            ResidencyChange::Warm { .. } | ResidencyChange::Pin { .. } => self.deadline,
            ResidencyChange::Unpin | ResidencyChange::Evict => None,
        };
        let host = self.state.compute.clone();
        let bases = self.bases.clone();
        let device_time = self.device_time.clone();
        let job = ResidencyJob { host, bases, device, change, device_time };
        let ticket = self.state.scheduler.submit(self.owner, JobControl::new(deadline), |_| job);
        Ok(ticket.await?.output)
    }

    /// Changes what devices hold. If a pin fails, those that this call has made are undone.
    ///
    /// Errors: `PinRefused`, `Exhausted`, `DeviceLost`, `Cancelled`, `Deadline`.
    pub async fn change(
        &self,
        action: ResidencyAction,
        devices: &[u32],
    ) -> Result<Vec<DeviceResidency>> {
        let _turn = self.state.pins.turn(self.tenant.id).await;
        let (mut held, mut new_pins) = (Vec::new(), Vec::new());
        for &device in devices {
            let was_pinned = self.state.pins.charged(self.key(device)).is_some();
            let changed = match action {
                ResidencyAction::Warm => {
                    self.run(device, ResidencyChange::Warm { bytes_max: u64::MAX }).await
                }
                ResidencyAction::Pin => self.pin(device).await,
                ResidencyAction::Unpin => self.unpin(device, ResidencyChange::Unpin).await,
                ResidencyAction::Evict => self.unpin(device, ResidencyChange::Evict).await,
            };
            match changed {
                Ok(now) => held.push(now),
                Err(error) => {
                    for device in new_pins {
                        // A device that is lost has no pins.
                        let _undone = self.unpin(device, ResidencyChange::Unpin).await;
                    }
                    return Err(error);
                }
            }
            if action == ResidencyAction::Pin && !was_pinned {
                new_pins.push(device);
            }
        }
        Ok(held)
    }

    async fn pin(&self, device: u32) -> Result<DeviceResidency> {
        let pins = &self.state.pins;
        let key = self.key(device);
        if let Some(bytes_max) = pins.charged(key) {
            return self.run(device, ResidencyChange::Pin { bytes_max }).await;
        }
        let has_others = self.state.tenants.are_several();
        // One point more, for alignment.
        let points = self.bases.len() as u64 + 1;
        let least = points.saturating_mul(self.bases.group().affine_bytes() as u64);
        let bytes_max = pins.room(&self.tenant, device, least, has_others)?;
        // Warmed first: what a pin takes is known only then.
        let warm = self.run(device, ResidencyChange::Warm { bytes_max }).await?;
        pins.insert(&self.tenant, key, warm.bytes, has_others)?;
        let pinned = self.run(device, ResidencyChange::Pin { bytes_max: warm.bytes }).await;
        pinned.inspect_err(|_| pins.remove(key))
    }

    /// Ends the pin, if there is one, and makes a change that lets go of the bases.
    async fn unpin(&self, device: u32, change: ResidencyChange) -> Result<DeviceResidency> {
        let changed = self.run(device, change).await;
        if matches!(changed, Ok(_) | Err(Error::Engine(EngineError::DeviceLost))) {
            self.state.pins.remove(self.key(device));
        }
        changed
    }
}

/// Changes what devices hold of a caller's bases, and waits for it.
///
/// Errors: `NotFound`, `Mismatch`, `Loading`; `Invalid` for a device that the server does not have;
/// `Draining`; those of the change.
pub async fn set(call: &CallContext, spec: ResidencySpec) -> Result<Vec<DeviceResidency>> {
    let ResidencySpec { id, action, devices } = spec;
    let mut bases = TenantBases::find(&call.state, &call.tenant, id)?;
    let known = call.state.compute.executor.bases_devices();
    let is_known = |index: &u32| known.iter().any(|device| device.index == *index);
    if let Some(at) = devices.iter().position(|index| !is_known(index)) {
        return Err(Error::element("devices", at as u64, FieldProblem::OutOfRange));
    }
    let devices = match devices.is_empty() {
        true => {
            known.iter().filter(|device| device.is_serving).map(|device| device.index).collect()
        }
        false => devices,
    };
    let permit = call.admit(0, 1)?;
    call.check_debt()?;
    bases.owner = call.owner();
    bases.deadline = call.deadline;
    bases.device_time = Some(call.tenant.device_time.clone());
    // A change that has begun goes on if the caller has gone: pins and charges must agree.
    let changed = tokio::spawn(async move {
        let changed = bases.change(action, &devices).await;
        drop(permit);
        changed
    });
    let changed = changed.await.map_err(|_| Error::internal("a change panicked"))?;
    changed.inspect_err(telemetry::count_refusal)
}

/// Frees what devices keep of bases that are about to be released.
pub async fn unpin_released(state: &Arc<ServerState>, tenant: &Arc<Tenant>, id: ObjectId) {
    let devices = state.pins.devices_of(tenant.id, id);
    if devices.is_empty() {
        return;
    }
    if let Ok(bases) = TenantBases::find(state, tenant, id) {
        let _turn = state.pins.turn(tenant.id).await;
        for device in &devices {
            let executor = state.compute.executor.clone();
            let points = bases.bases.clone();
            let device = *device;
            let control = JobControl::default();
            let evict = move || {
                executor.set_residency(device, &points, ResidencyChange::Evict, &control).map(drop)
            };
            // Without its object, a pin keeps nothing for long.
            let _evicted = spawn_blocking(evict).await;
        }
    }
    for device in devices {
        state.pins.remove(PinKey { tenant: tenant.id, id, device });
    }
}

/// Pins bases again to devices that have lost them: their worker was replaced, say.
pub async fn restore_pins(state: Arc<ServerState>) {
    let pins = state.pins.all();
    if pins.is_empty() {
        return;
    }
    let Some(_alone) = state.pins.begin_restore() else { return };
    let held = snapshot(&state).await;
    let devices = state.compute.executor.bases_devices();
    for Pin { key, tenant, .. } in pins {
        let is_serving = devices.iter().any(|gpu| gpu.index == key.device && gpu.is_serving);
        match TenantBases::find(&state, &tenant, key.id) {
            Ok(bases) if is_serving && held.lacks_pin(&bases.bases, key.device) => {
                let _turn = state.pins.turn(key.tenant).await;
                if state.pins.charged(key).is_none() {
                    continue;
                }
                let device = key.device;
                let id = hex::encode(key.id.0);
                match bases.pin(device).await {
                    Ok(held) => info!(device, id, bytes = held.bytes, "bases are pinned again"),
                    Err(error) => {
                        if let Some(suppressed) = state.pins.restore_failures.pass() {
                            warn!(device, id, %error, suppressed, "cannot pin bases again");
                        }
                    }
                }
            }
            // Released, or its file cannot be read.
            Err(Error::NOT_FOUND) => state.pins.remove(key),
            _ => {}
        }
    }
}
