//! Which bases the devices held at one time.

use std::{collections::HashMap, sync::Arc};

use crate::{
    curve::points::{Bases, WeakOwner},
    engine::DeviceResidency,
    exec::Executor,
};

/// What all devices held at one time.
#[derive(Clone, Default)]
pub struct ResidencySnapshot(Arc<HashMap<usize, HeldBases>>);

struct HeldBases {
    /// While it exists, no other owner has its address.
    owner: WeakOwner,
    /// In the order of their numbers.
    devices: Vec<DeviceResidency>,
}

impl ResidencySnapshot {
    pub fn of(executor: &dyn Executor) -> Self {
        let mut all = HashMap::<usize, HeldBases>::new();
        for object in executor.residency() {
            let (address, owner) = (object.owner.address(), object.owner);
            let held = all.entry(address).or_insert(HeldBases { owner, devices: Vec::new() });
            let new = object.residency;
            match held.devices.binary_search_by_key(&new.device, |known| known.device) {
                Ok(at) => held.devices[at].merge(new),
                Err(at) => held.devices.insert(at, new),
            }
        }
        Self(Arc::new(all))
    }

    /// The devices that hold the object that `bases` are part of.
    pub fn devices_of(&self, bases: &Bases) -> &[DeviceResidency] {
        let held = self.0.get(&bases.owner_address());
        held.filter(|held| held.owner.owns(bases)).map_or(&[], |held| &held.devices)
    }

    pub fn has_pinned(&self, bases: &Bases, device: u32) -> bool {
        self.devices_of(bases).iter().any(|held| held.device == device && held.pinned)
    }
}
