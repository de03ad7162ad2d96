//! The objects of the store, and what they are charged for.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use tokio::runtime::Handle;

use crate::{
    buffer::QuotaPermit,
    curve::points::Bases,
    sparse::SparseMatrix,
    wire::decode::{ObjectId, PayloadId},
};

pub struct StoredObject {
    /// The content hash that names it.
    pub id: ObjectId,
    pub data: ObjectData,
    /// The payload that it was uploaded as, if known.
    pub payload: Option<PayloadId>,
    pub label: String,
    /// When it was stored, in seconds of Unix time.
    pub created_s: i64,
    pub persisted: bool,
}

pub enum ObjectData {
    Bases(StoredPoints),
    /// Checked.
    Matrix(SparseMatrix),
}

pub struct StoredPoints {
    /// On the curve and in the subgroup.
    pub points: Bases,
    /// Number of points that are infinity.
    pub infinities: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectKind {
    Bases,
    Matrix,
}

impl ObjectKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Bases => "bases",
            Self::Matrix => "matrix",
        }
    }
}

/// An object's share of the limits of the store and of its tenant, returned on drop.
#[derive(Debug)]
pub struct StoreCharge {
    pub(super) _permits: [QuotaPermit; 4],
}

impl ObjectData {
    pub fn kind(&self) -> ObjectKind {
        match self {
            Self::Bases(_) => ObjectKind::Bases,
            Self::Matrix(_) => ObjectKind::Matrix,
        }
    }

    /// What the object is, for callers that need another one.
    pub(super) fn description(&self) -> String {
        match self {
            Self::Bases(bases) => format!("bases of {}", bases.points.group()),
            Self::Matrix(_) => "a matrix".into(),
        }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Bases(bases) => bases.points.as_bytes(),
            Self::Matrix(matrix) => matrix.as_bytes(),
        }
    }

    /// False if some bytes could not be read from the object's file.
    pub(super) fn is_intact(&self) -> bool {
        match self {
            Self::Bases(bases) => bases.points.is_intact(),
            Self::Matrix(matrix) => matrix.is_intact(),
        }
    }

    fn with_guard(self, guard: Option<Arc<dyn Send + Sync>>) -> Self {
        match self {
            Self::Bases(bases) => {
                Self::Bases(StoredPoints { points: bases.points.with_guard(guard), ..bases })
            }
            Self::Matrix(matrix) => Self::Matrix(matrix.with_guard(guard)),
        }
    }
}

impl StoredObject {
    /// Bytes in memory, or mapped from disk.
    pub fn bytes(&self) -> u64 {
        self.data.as_bytes().len() as u64
    }

    /// Whether to store this object in place of an equal one. True if the equal one is not on disk,
    /// or if its file is of version 0.2.0, whose payload hash cannot be trusted.
    pub(super) fn improves(&self, held: &Self, persist: bool) -> bool {
        let knows_payload = held.payload.is_none() && self.payload.is_some();
        persist && (!held.persisted || knows_payload)
    }

    /// Holds `charge` as long as the data are in use: possibly by jobs, long after a release.
    pub(super) fn with_charge(self, charge: StoreCharge) -> Self {
        Self { data: self.data.with_guard(Some(Arc::new(charge))), ..self }
    }

    /// Uses the memory of another tenant's equal points, and keeps its own charge. Engines and
    /// batches treat them as different points: what they keep for one tenant must not make calls of
    /// another one faster. Each tenant has its own copy of a matrix, so there is nothing to hide.
    pub(super) fn sharing(self, other: &Self) -> Self {
        let data = match (self.data, &other.data) {
            (ObjectData::Bases(own), ObjectData::Bases(equal)) => {
                let guard = own.points.guard();
                let points = equal.points.clone().with_guard(None).as_own_object();
                free_later(own.points.with_guard(None));
                let points = points.with_guard(guard);
                ObjectData::Bases(StoredPoints { points, infinities: own.infinities })
            }
            (data, _) => data,
        };
        Self { data, ..self }
    }

    /// Returns the charge of an object that was removed from the store, unless jobs use it.
    pub(super) fn free(self: Arc<Self>) {
        let Some(StoredObject { data: ObjectData::Bases(bases), .. }) = Arc::into_inner(self)
        else {
            return;
        };
        let charge = bases.points.guard();
        free_later(bases.points.with_guard(None));
        drop(charge);
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
