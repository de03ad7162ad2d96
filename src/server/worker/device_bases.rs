//! Which bases the devices of workers hold: the server's side.

use std::time::Duration;

use super::{
    link::WorkerLost,
    message::{ControlReply, ControlRequest, LaneRequest, ResidencyRequest, ResidentNumber},
    pool::WorkerPool,
    process::{LiveWorker, RequestFailure},
    sent_objects::BasesScope,
};
use crate::{
    curve::points::Bases,
    engine::{
        BasesDevice, DeviceResidency, JobControl, ResidencyChange, ResidentObject, cuda::GpuFacts,
    },
    error::{EngineError as Error, EngineResult as Result},
};

/// Time to upload bases and to make tables, by their bytes, before a worker must answer a ping:
/// many times what it takes.
const LOAD_NS_PER_BYTE: u64 = 100;

pub fn devices(pool: &WorkerPool) -> Vec<BasesDevice> {
    let live = pool.live();
    let device = |gpu: &GpuFacts| BasesDevice {
        index: gpu.index,
        bytes: gpu.arena_bytes,
        is_serving: live.iter().any(|worker| worker.facts.index == gpu.index),
    };
    pool.gpus().iter().map(device).collect()
}

/// What a device holds; `None` if its worker does not answer.
pub fn list(pool: &WorkerPool, device: u32) -> Option<Vec<ResidentObject>> {
    let worker = pool.live().into_iter().find(|worker| worker.facts.index == device);
    // A worker that is lost holds nothing any more.
    worker.map_or_else(|| Some(Vec::new()), |worker| held_by(&worker))
}

fn held_by(worker: &LiveWorker) -> Option<Vec<ResidentObject>> {
    let held = match worker.link.control(&ControlRequest::ListBases, None) {
        Ok(Ok(ControlReply::Bases(held))) => held,
        Err(WorkerLost) => return Some(Vec::new()),
        Ok(_) => return None,
    };
    let owners = worker.objects.owners();
    let device = worker.facts.index;
    let known = held.into_iter().filter_map(|ResidentNumber { object, residency }| {
        let residency = DeviceResidency { device, ..residency };
        Some(ResidentObject { owner: owners.get(&object)?.clone(), residency })
    });
    Some(known.collect())
}

/// Changes what a device holds of the object that `bases` are part of.
///
/// Errors: `DeviceLost` if the device's worker does not serve or is lost; those of the change.
pub fn set(
    pool: &WorkerPool,
    device: u32,
    bases: &Bases,
    change: ResidencyChange,
    control: &JobControl,
) -> Result<DeviceResidency> {
    control.check()?;
    let worker = pool.live().into_iter().find(|worker| worker.facts.index == device);
    let worker = worker.ok_or(Error::DeviceLost)?;
    let sent = &worker.objects;
    let objects = match change {
        ResidencyChange::Warm { .. } | ResidencyChange::Pin { .. } => {
            let named = sent.name_bases(&worker.link, bases, BasesScope::WholeObject);
            vec![named.map_err(|WorkerLost| Error::DeviceLost)??.object]
        }
        ResidencyChange::Unpin | ResidencyChange::Evict => sent.numbers_of(bases),
    };
    if objects.is_empty() {
        return Ok(DeviceResidency::none(device));
    }
    let request = LaneRequest::SetResidency(ResidencyRequest { objects, change });
    let bytes = bases.all_of_owner().as_bytes().len() as u64;
    let expected = Duration::from_nanos(bytes * LOAD_NS_PER_BYTE);
    let held = worker.request(&request, None, control, expected, |outcome| {
        outcome.into_residency(&worker.facts)
    });
    match held {
        Ok(Ok(held)) => {
            sent.set_pinned(bases, held.pinned);
            Ok(held)
        }
        Ok(Err(failure)) => Err(failure.into_general_error()),
        Err(RequestFailure::NotSent(error)) => Err(error),
        Err(RequestFailure::LostBefore | RequestFailure::LostMeanwhile) => Err(Error::DeviceLost),
    }
}
