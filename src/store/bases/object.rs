//! The objects of the store, and what they are charged for.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use tokio::runtime::Handle;

use crate::{
    buffer::QuotaPermit,
    curve::points::Bases,
    wire::decode::{ObjectId, PayloadId},
};

pub struct StoredBases {
    /// The content hash that names them.
    pub id: ObjectId,
    /// On the curve and in the subgroup.
    pub points: Bases,
    /// Number of points that are infinity.
    pub infinities: u64,
    /// The payload that they were uploaded as, if known.
    pub payload: Option<PayloadId>,
    pub label: String,
    /// When they were stored, in seconds of Unix time.
    pub created_s: i64,
    pub persisted: bool,
}

/// An object's share of the limits of the store and of its tenant, returned on drop.
#[derive(Debug)]
pub struct StoreCharge {
    pub(super) _permits: [QuotaPermit; 3],
}

impl StoredBases {
    /// Bytes in memory, or mapped from disk.
    pub fn bytes(&self) -> u64 {
        self.points.len() as u64 * self.points.group().affine_bytes() as u64
    }

    /// Holds `charge` as long as the points are in use: possibly by jobs, long after a release.
    pub(super) fn with_charge(self, charge: StoreCharge) -> Self {
        Self { points: self.points.with_guard(Some(Arc::new(charge))), ..self }
    }

    /// Uses the memory of equal points, and keeps its own charge. Engines and batches treat them as
    /// different points: what they keep for one tenant must not make calls of another one faster.
    pub(super) fn sharing(self, points: &Bases) -> Self {
        let guard = self.points.guard();
        let points = points.clone().with_guard(None).as_own_object();
        free_later(self.points.with_guard(None));
        Self { points: points.with_guard(guard), ..self }
    }

    /// Returns the charge of bases that were removed from the store, unless jobs use them.
    pub(super) fn free(self: Arc<Self>) {
        if let Some(removed) = Arc::into_inner(self) {
            let charge = removed.points.guard();
            free_later(removed.points.with_guard(None));
            drop(charge);
        }
    }
}

/// Frees memory on another thread: its time would tell a caller whether another tenant has the same
/// points.
fn free_later(points: Bases) {
    match Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(move || drop(points))),
        // While files are loaded, nobody waits for an answer.
        Err(_) => drop(points),
    }
}

pub fn unix_time_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() as i64)
}
