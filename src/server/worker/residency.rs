//! Which bases a worker's device holds: the worker's side.

use std::collections::HashMap;

use super::{
    mapped_objects::MappedObjects,
    message::{ResidencyRequest, ResidentNumber},
    running::RunningObjects,
};
use crate::{
    engine::{DeviceResidency, JobControl},
    error::EngineResult as Result,
    exec::{Executor, RunOperands},
};

/// What the device holds of each number.
pub fn list(executor: &dyn Executor, device: u32, objects: &MappedObjects) -> Vec<ResidentNumber> {
    let resident = executor.residency(device).into_iter().flatten();
    let by_owner: HashMap<_, _> =
        resident.map(|object| (object.owner.address(), object.residency)).collect();
    let held = objects.all_bases().into_iter().filter_map(|(object, bases)| {
        Some(ResidentNumber { object, residency: *by_owner.get(&bases.owner_address())? })
    });
    held.collect()
}

/// Changes what the device holds of bases that belong to one object.
///
/// Errors: `Internal` if some are not mapped; those of the change.
pub fn set(
    executor: &dyn Executor,
    device: u32,
    objects: &MappedObjects,
    request: &ResidencyRequest,
) -> Result<DeviceResidency> {
    let mut all = DeviceResidency::none(device);
    for object in &request.objects {
        let bases = objects.whole_bases(*object)?;
        let control = JobControl::default();
        all.merge(executor.set_residency(device, &bases, request.change, &control)?);
    }
    Ok(all)
}

/// Makes the device forget objects of a call whose result was wrong, and all tables.
pub fn evict_suspects(executor: &dyn Executor, objects: &MappedObjects, suspects: &[u64]) {
    let RunningObjects { bases, matrices } = objects.find_all(suspects);
    let bases = &bases[..];
    let matrices = &matrices[..];
    executor.evictor()(&RunOperands { bases, matrices, ..RunOperands::default() });
}
