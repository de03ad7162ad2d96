//! Bases of a fleet: on one server, on replicas, or cut over several servers.

use std::{fmt, ops::Range, sync::Arc};

use capstan_math::{curve::points::content_hash, error::FieldProblem};
use futures_util::future::try_join_all;

use super::{Fleet, slices::divide};
use crate::{
    BasesHandle, CurvePoint, PutOptions,
    error::{ClientError, Result},
};

/// Bases that servers of a fleet have. The fleet holds the points, too, so that it can put them on
/// another server. Cheap to clone.
pub struct FleetBases<A> {
    pub(super) len: usize,
    /// Chooses the servers.
    pub(super) key: [u8; 32],
    pub(super) parts: Arc<[BasesPart<A>]>,
}

/// Some of the bases, an object on its server.
pub(super) struct BasesPart<A> {
    pub range: Range<usize>,
    pub handle: BasesHandle<A>,
}

impl<A> Clone for FleetBases<A> {
    fn clone(&self) -> Self {
        Self { len: self.len, key: self.key, parts: self.parts.clone() }
    }
}

impl<A> fmt::Debug for FleetBases<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FleetBases({} points in {} parts)", self.len, self.parts.len())
    }
}

impl<A> FleetBases<A> {
    /// Number of points.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no points.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of servers that compute an MSM together.
    pub fn parts(&self) -> usize {
        self.parts.len()
    }
}

impl Fleet {
    /// Puts bases on the server that the hash of their content chooses.
    ///
    /// Errors: those of [`Client::put_bases`](crate::Client::put_bases).
    pub async fn put_bases<A: CurvePoint>(
        &self,
        points: impl Into<Arc<[A]>>,
    ) -> Result<FleetBases<A>> {
        self.put_bases_with(PutOptions::default(), points, 1).await
    }

    /// Puts bases cut into `parts` parts of almost equal length, each on another server if there
    /// are enough, with a label, persistence or a deadline. An MSM over them is computed by all of
    /// these servers at the same time, and each has memory for its part only. With fewer points
    /// than parts, each part is one point.
    ///
    /// Errors: those of [`Client::put_bases`](crate::Client::put_bases); `InvalidInput` if
    /// there are no points.
    pub async fn put_bases_with<A: CurvePoint>(
        &self,
        options: PutOptions,
        points: impl Into<Arc<[A]>>,
        parts: usize,
    ) -> Result<FleetBases<A>> {
        let points = points.into();
        if points.is_empty() {
            return Err(ClientError::input("points", FieldProblem::Zero));
        }
        let key = content_hash(&points);
        let ranges = divide(points.len(), parts);
        let puts = ranges.into_iter().enumerate().map(|(place, range)| {
            let (points, options) = (points.clone(), options.clone());
            let limit = options.deadline.or(self.inner.deadline);
            async move {
                let put = |client: crate::Client, left| {
                    let options = PutOptions { deadline: left, ..options.clone() };
                    let (points, range) = (points.clone(), range.clone());
                    async move { client.put_shared_range(options, points, range).await }
                };
                let candidates = self.candidates(Some(&key), place);
                let handle = self.call_within(candidates, limit, put).await?;
                Ok::<_, ClientError>(BasesPart { range, handle })
            }
        });
        let parts = try_join_all(puts).await?.into();
        Ok(FleetBases { len: points.len(), key, parts })
    }
}
