//! Which bases the devices hold.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::future::join_all;

use super::device_query::DeviceQuery;
use crate::{
    curve::points::{Bases, WeakOwner},
    engine::{BasesDevice, DeviceResidency},
    exec::Executor,
};

/// Limit on the wait for a device's answer: a worker that hangs is lost only after 20 seconds.
const ANSWER_WAIT: Duration = Duration::from_millis(500);

/// Asks each device what it holds.
pub struct ResidencyQueries(Vec<ResidencyQuery>);

struct ResidencyQuery {
    device: u32,
    query: DeviceQuery<Option<Arc<ResidencyByOwner>>>,
}

/// What a device holds, by the address of the owner.
type ResidencyByOwner = HashMap<usize, OwnerResidency>;

/// What a device holds of one object.
struct OwnerResidency {
    /// While it exists, no other owner has its address.
    owner: WeakOwner,
    residency: DeviceResidency,
}

/// What all devices hold, apart from those that do not answer in time.
#[derive(Default)]
pub struct ResidencySnapshot {
    /// In the order of their numbers.
    devices: Vec<DeviceSnapshot>,
}

/// What a device holds.
pub struct DeviceSnapshot {
    pub device: u32,
    /// `None` if it does not answer.
    held: Option<Arc<ResidencyByOwner>>,
}

impl ResidencyQueries {
    pub fn new(devices: &[BasesDevice]) -> Self {
        let of = |device: &BasesDevice| {
            let device = device.index;
            ResidencyQuery { device, query: DeviceQuery::new(move |all| ask(all, device)) }
        };
        let mut queries: Vec<_> = devices.iter().map(of).collect();
        queries.sort_by_key(|query| query.device);
        Self(queries)
    }

    /// What the devices hold now. A device that does not answer delays it by half a second at most.
    pub async fn snapshot(&self, executor: &Arc<dyn Executor>) -> ResidencySnapshot {
        let devices = self.0.iter().map(async |ResidencyQuery { device, query }| DeviceSnapshot {
            device: *device,
            held: query.query_within(ANSWER_WAIT, executor.clone()).await.flatten(),
        });
        ResidencySnapshot { devices: join_all(devices).await }
    }
}

fn ask(executor: &dyn Executor, device: u32) -> Option<Arc<ResidencyByOwner>> {
    let mut all = ResidencyByOwner::new();
    for object in executor.residency(device)? {
        let address = object.owner.address();
        let owner = object.owner;
        let new = object.residency;
        let residency = DeviceResidency { device, ..DeviceResidency::default() };
        let held = all.entry(address).or_insert(OwnerResidency { owner, residency });
        held.residency.merge(new);
    }
    Some(Arc::new(all))
}

impl ResidencySnapshot {
    pub fn devices(&self) -> &[DeviceSnapshot] {
        &self.devices
    }

    /// What devices hold of the object that `bases` are part of.
    pub fn of(&self, bases: &Bases) -> impl Iterator<Item = DeviceResidency> {
        self.devices.iter().filter_map(|device| device.of(bases))
    }

    /// Numbers of the devices that do not answer.
    pub fn unknown_devices(&self) -> Vec<u32> {
        let unknown = self.devices.iter().filter(|device| device.held.is_none());
        unknown.map(|device| device.device).collect()
    }

    /// Whether a device has answered, and has not pinned these bases.
    pub fn lacks_pin(&self, bases: &Bases, device: u32) -> bool {
        let of_device = self.devices.iter().find(|known| known.device == device);
        let has_pinned = |known: &DeviceSnapshot| known.of(bases).is_some_and(|held| held.pinned);
        of_device.is_some_and(|known| known.held.is_some() && !has_pinned(known))
    }
}

impl DeviceSnapshot {
    /// What the device holds of all objects; `None` if it does not answer.
    pub fn held(&self) -> Option<impl Iterator<Item = &DeviceResidency>> {
        self.held.as_ref().map(|held| held.values().map(|held| &held.residency))
    }

    /// What the device holds of the object that `bases` are part of.
    pub fn of(&self, bases: &Bases) -> Option<DeviceResidency> {
        let held = self.held.as_ref()?.get(&bases.owner_address())?;
        held.owner.owns(bases).then_some(held.residency)
    }
}
