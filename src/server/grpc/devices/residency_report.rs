//! Which bases the devices hold, for the status page: totals, and for administrators the objects.

use std::sync::Arc;

use serde::Serialize;

use super::residency_snapshot::{DeviceSnapshot, ResidencySnapshot};
use crate::grpc::state::ServerState;
use crate::{
    engine::DeviceResidency,
    store::{ObjectData, StoredObject},
    tenant::Tenant,
};

/// Bases of one device that are listed.
const LISTED_MAX: usize = 100;

/// What a device holds.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct DeviceHoldings {
    device: u32,
    /// `None` if the device does not answer.
    total: Option<HoldingsTotal>,
    /// For administrators: the largest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    bases: Option<Vec<ReportedBases>>,
}

/// `bases` and `bytes` include pinned bases.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct HoldingsTotal {
    bases: u64,
    bytes: u64,
    pinned_bases: u64,
    pinned_bytes: u64,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct ReportedBases {
    /// Bytes of the device, with tables.
    bytes: u64,
    id: String,
    label: String,
    tenant: String,
    group: &'static str,
    points: u64,
    tables: u32,
    pinned: bool,
}

/// What each device holds. May take milliseconds if it `names_bases`.
pub fn report(
    state: &ServerState,
    held: &ResidencySnapshot,
    names_bases: bool,
) -> Vec<DeviceHoldings> {
    let tenants = if names_bases { state.tenants.in_use() } else { Vec::new() };
    let stored: Vec<_> = tenants
        .into_iter()
        .flat_map(|tenant| {
            let objects = state.objects.list(tenant.id);
            objects.into_iter().map(move |object| TenantObject { tenant: tenant.clone(), object })
        })
        .collect();
    let of_device = |snapshot: &DeviceSnapshot| DeviceHoldings {
        device: snapshot.device,
        total: snapshot.held().map(total),
        bases: names_bases.then(|| largest(snapshot, &stored)),
    };
    held.devices().iter().map(of_device).collect()
}

struct TenantObject {
    tenant: Arc<Tenant>,
    object: Arc<StoredObject>,
}

fn total<'a>(held: impl Iterator<Item = &'a DeviceResidency>) -> HoldingsTotal {
    held.fold(HoldingsTotal::default(), |all, held| {
        let pinned = u64::from(held.pinned);
        let bytes = held.bytes;
        HoldingsTotal {
            bases: all.bases + 1,
            bytes: all.bytes.saturating_add(bytes),
            pinned_bases: all.pinned_bases + pinned,
            pinned_bytes: all.pinned_bytes.saturating_add(pinned * bytes),
        }
    })
}

fn largest(snapshot: &DeviceSnapshot, stored: &[TenantObject]) -> Vec<ReportedBases> {
    let mut all: Vec<_> =
        stored.iter().filter_map(|owned| reported_bases(snapshot, owned)).collect();
    all.sort_unstable_by(|a, b| b.cmp(a));
    all.truncate(LISTED_MAX);
    all
}

fn reported_bases(snapshot: &DeviceSnapshot, owned: &TenantObject) -> Option<ReportedBases> {
    let TenantObject { tenant, object } = owned;
    let ObjectData::Bases(stored) = &object.data else { return None };
    let DeviceResidency { bytes, tables, pinned, .. } = snapshot.of(&stored.points)?;
    Some(ReportedBases {
        bytes,
        id: hex::encode(object.id.0),
        label: object.label.clone(),
        tenant: tenant.name.to_string(),
        group: stored.points.group().name(),
        points: stored.points.len() as u64,
        tables,
        pinned,
    })
}
