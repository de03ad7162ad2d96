//! The objects of the store, and what they are charged for.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use crate::{
    buffer::QuotaPermit,
    curve::points::{Bases, CurvePoint, FileOfPoints, PointOwner, PointSlice},
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

/// An object's share of the store's byte and object limits, returned on drop.
#[derive(Debug)]
pub struct StoreCharge {
    pub(super) _permits: [QuotaPermit; 2],
}

/// Points with their charge, which is returned when the last job drops the points: possibly long
/// after their release.
struct ChargedPoints<A> {
    points: PointSlice<A>,
    _charge: StoreCharge,
}

impl<A: Send + Sync> PointOwner<A> for ChargedPoints<A> {
    fn points(&self) -> &[A] {
        &self.points
    }

    fn file(&self) -> Option<FileOfPoints<'_>> {
        self.points.file()
    }
}

impl StoredBases {
    /// Bytes in memory, or mapped from disk.
    pub fn bytes(&self) -> u64 {
        self.points.len() as u64 * self.points.group().affine_bytes() as u64
    }

    /// Holds `charge` as long as the points are in use.
    pub(super) fn with_charge(self, charge: StoreCharge) -> Self {
        fn charged<A: CurvePoint>(points: PointSlice<A>, charge: StoreCharge) -> Bases {
            let points = Arc::new(ChargedPoints { points, _charge: charge });
            A::into_bases(PointSlice::new(points))
        }
        let points = match self.points {
            Bases::G1(points) => charged(points, charge),
            Bases::G2(points) => charged(points, charge),
        };
        Self { points, ..self }
    }
}

pub fn unix_time_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() as i64)
}
