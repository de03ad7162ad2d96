//! Which bases are pinned to which devices, and what their tenants are charged.
//!
//! The server remembers pins; a device has only a flag: after the loss of a worker, or of damaged
//! bases, the server compares what devices hold with its pins every two seconds, and pins again.
//! Pinned bases keep the tables that they had when they were charged.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::{
    buffer::{Quota, QuotaPermit},
    engine::BasesDevice,
    error::{Error, Limit, Result, TenantLimit},
    telemetry::LogThrottle,
    tenant::{Tenant, TenantId},
    wire::decode::ObjectId,
};

/// One of several tenants may have this part of what a device's limit allows.
const TENANT_DIVISOR: u64 = 2;

/// Bases that are pinned to a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PinKey {
    pub tenant: TenantId,
    pub id: ObjectId,
    pub device: u32,
}

/// A pin, with the bytes that its tenant is charged.
#[derive(Clone)]
pub struct Pin {
    pub key: PinKey,
    pub tenant: Arc<Tenant>,
    pub bytes: u64,
}

/// The pins of a server. Each change is one insertion or removal under the lock.
pub struct PinTable {
    pins: Mutex<ChargedPins>,
    /// Bytes that pins may take of each device.
    limits: BTreeMap<u32, Arc<Quota>>,
    /// A tenant's lock is held while its pins and what devices hold change, so that they agree.
    turns: Mutex<HashMap<TenantId, Arc<AsyncMutex<()>>>>,
    restoring: Arc<AsyncMutex<()>>,
    pub restore_failures: LogThrottle,
}

type ChargedPins = BTreeMap<PinKey, ChargedPin>;

struct ChargedPin {
    pin: Pin,
    _permits: [QuotaPermit; 2],
}

/// A limit, and what it leaves to a tenant.
struct Room {
    limit: Limit,
    bytes: u64,
}

impl PinTable {
    /// No pins. They may take `percent` of the memory of each device.
    pub fn new(devices: &[BasesDevice], percent: u32) -> Self {
        let limit = |device: &BasesDevice| {
            let bytes = device.bytes / 100 * u64::from(percent);
            (device.index, Quota::new(Limit::PinnedBases, bytes))
        };
        let limits = devices.iter().map(limit).collect();
        let (pins, turns, restoring) = Default::default();
        Self { pins, limits, turns, restoring, restore_failures: LogThrottle::new() }
    }

    /// Holds off other restores of lost pins; `None` if one is in progress.
    pub fn begin_restore(&self) -> Option<OwnedMutexGuard<()>> {
        self.restoring.clone().try_lock_owned().ok()
    }

    /// Waits until no other change of a tenant's pins is in progress.
    pub async fn turn(&self, tenant: TenantId) -> OwnedMutexGuard<()> {
        let turn = self.turns.lock().entry(tenant).or_default().clone();
        turn.lock_owned().await
    }

    /// The bytes that a pin is charged; `None` if there is none.
    pub fn charged(&self, key: PinKey) -> Option<u64> {
        self.pins.lock().get(&key).map(|charged| charged.pin.bytes)
    }

    /// The bytes that a tenant can still pin to a device: at least `bytes`, which the bases take
    /// without tables. If there are other tenants, it gets half of the device's limit at most.
    ///
    /// Errors: `PinRefused` if the limits leave less.
    pub fn room(&self, tenant: &Tenant, device: u32, bytes: u64, has_others: bool) -> Result<u64> {
        let pins = self.pins.lock();
        let Room { limit, bytes: left } = self.smallest_room(&pins, tenant, device, has_others)?;
        if left < bytes {
            return Err(Error::PinRefused { limit, device, bytes, left });
        }
        Ok(left)
    }

    fn smallest_room(
        &self,
        pins: &ChargedPins,
        tenant: &Tenant,
        device: u32,
        has_others: bool,
    ) -> Result<Room> {
        let all = self.limit_of(device)?;
        let own = pins.values().map(|charged| &charged.pin);
        let own = own.filter(|pin| pin.key.tenant == tenant.id && pin.key.device == device);
        let own: u64 = own.map(|pin| pin.bytes).sum();
        let share = if has_others { all.max() / TENANT_DIVISOR } else { all.max() };
        let of_device = all.max().saturating_sub(all.used()).min(share.saturating_sub(own));
        let quota = &tenant.pinned_bases_bytes;
        let of_tenant = quota.max().saturating_sub(quota.used());
        let tenant_limit = Limit::Tenant(TenantLimit::PinnedBasesBytes);
        Ok(match of_tenant < of_device {
            true => Room { limit: tenant_limit, bytes: of_tenant },
            false => Room { limit: Limit::PinnedBases, bytes: of_device },
        })
    }

    fn limit_of(&self, device: u32) -> Result<&Arc<Quota>> {
        let internal = || Error::internal("there is no such device");
        self.limits.get(&device).ok_or_else(internal)
    }

    /// Charges a tenant for a pin that it does not have yet.
    ///
    /// Errors: `PinRefused` if another call has taken the room meanwhile.
    pub fn insert(
        &self,
        tenant: &Arc<Tenant>,
        key: PinKey,
        bytes: u64,
        has_others: bool,
    ) -> Result<()> {
        let device = key.device;
        let mut pins = self.pins.lock();
        let Room { limit, bytes: left } = self.smallest_room(&pins, tenant, device, has_others)?;
        if left < bytes {
            return Err(Error::PinRefused { limit, device, bytes, left });
        }
        let quotas = [self.limit_of(device)?, &tenant.pinned_bases_bytes];
        let _permits = quotas.map(|quota| quota.charge(bytes));
        let pin = Pin { key, tenant: tenant.clone(), bytes };
        pins.insert(key, ChargedPin { pin, _permits });
        Ok(())
    }

    /// Ends a pin, if there is one.
    pub fn remove(&self, key: PinKey) {
        self.pins.lock().remove(&key);
    }

    /// The devices that have pins of an object.
    pub fn devices_of(&self, tenant: TenantId, id: ObjectId) -> Vec<u32> {
        let pins = self.pins.lock();
        let first = PinKey { tenant, id, device: 0 };
        let own = pins.range(first..=PinKey { device: u32::MAX, ..first });
        own.map(|(key, _)| key.device).collect()
    }

    pub fn all(&self) -> Vec<Pin> {
        self.pins.lock().values().map(|charged| charged.pin.clone()).collect()
    }

    /// Bytes that pins take of each device.
    pub fn bytes(&self) -> impl Iterator<Item = (u32, u64)> {
        self.limits.iter().map(|(device, quota)| (*device, quota.used()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tenant::{TenantLimits, TenantName};

    /// Two devices with 500 and 1000 bytes for pins.
    fn table() -> PinTable {
        let device = |index, bytes| BasesDevice { index, bytes, is_serving: true };
        PinTable::new(&[device(0, 1000), device(3, 2000)], 50)
    }

    fn tenant(id: u32, pinned_bases_bytes_max: u64) -> Arc<Tenant> {
        let limits = TenantLimits { pinned_bases_bytes_max, ..TenantLimits::default() };
        Arc::new(Tenant::new(TenantId(id), TenantName::default(), &limits))
    }

    fn key(tenant: &Tenant, id: u8, device: u32) -> PinKey {
        PinKey { tenant: tenant.id, id: ObjectId([id; 32]), device }
    }

    fn left(room: Result<u64>) -> (Limit, u64) {
        match room {
            Err(Error::PinRefused { limit, left, .. }) => (limit, left),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn pins_take_part_of_each_device_and_return_it() {
        let pins = table();
        let own = tenant(0, u64::MAX);
        assert_eq!(pins.room(&own, 0, 500, false), Ok(500));
        assert_eq!(left(pins.room(&own, 0, 501, false)), (Limit::PinnedBases, 500));
        pins.insert(&own, key(&own, 1, 0), 300, false).unwrap();
        pins.insert(&own, key(&own, 1, 3), 300, false).unwrap();
        assert_eq!(left(pins.room(&own, 0, 201, false)), (Limit::PinnedBases, 200));
        assert_eq!(pins.room(&own, 3, 201, false), Ok(700));
        let refused = pins.insert(&own, key(&own, 2, 0), 201, false).map(|()| 0);
        assert_eq!(left(refused), (Limit::PinnedBases, 200));
        assert_eq!(pins.devices_of(own.id, ObjectId([1; 32])), [0, 3]);
        assert_eq!(pins.charged(key(&own, 1, 0)), Some(300));
        assert_eq!(own.pinned_bases_bytes.used(), 600);
        pins.remove(key(&own, 1, 0));
        assert_eq!(pins.bytes().collect::<Vec<_>>(), [(0, 0), (3, 300)]);
        assert_eq!(own.pinned_bases_bytes.used(), 300);
    }

    #[test]
    fn one_of_several_tenants_gets_half_of_a_device() {
        let pins = table();
        let a = tenant(1, u64::MAX);
        let b = tenant(2, 600);
        assert_eq!(left(pins.room(&a, 0, 251, true)), (Limit::PinnedBases, 250));
        pins.insert(&a, key(&a, 1, 0), 250, true).unwrap();
        assert_eq!(left(pins.room(&a, 0, 1, true)), (Limit::PinnedBases, 0));
        // Equal bases of another tenant are charged again.
        pins.insert(&b, key(&b, 1, 0), 250, true).unwrap();
        let limit = Limit::Tenant(TenantLimit::PinnedBasesBytes);
        assert_eq!(left(pins.room(&b, 3, 351, true)), (limit, 350));
        assert_eq!(pins.room(&b, 3, 350, true), Ok(350));
    }
}
