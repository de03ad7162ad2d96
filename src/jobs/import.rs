//! Imports bases: decodes and checks points as they arrive, computes their id at the end.

use std::{ops::Range, sync::Arc};

use tracing::{Span, debug_span, field::Empty};

use super::{ComputeHost, JobWaker, JobWork, payload::JobPayload};
use crate::{
    buffer::UploadBuffer,
    curve::points::{self, Bases, CurvePoint, PointEncoding, PointSlice},
    engine::{JobControl, PointChecker},
    error::{Error, Result},
};

/// Points that the host checks in one step: about 0.2 s on two cores.
const HOST_PIECE_POINTS: usize = 4096;

/// The result of an import.
pub struct ImportedBases {
    /// The checked points.
    pub bases: Bases,
    /// The content hash that names them.
    pub id: [u8; 32],
    /// Number of points that are infinity.
    pub infinities: u64,
    /// BLAKE3 of the payload.
    pub payload_hash: [u8; 32],
}

/// The import as the scheduler runs it.
pub struct ImportJob<A> {
    host: Arc<ComputeHost>,
    payload: JobPayload,
    encoding: PointEncoding,
    point_count: usize,
    expected_hash: Option<[u8; 32]>,
    hasher: blake3::Hasher,
    points: Vec<A>,
}

impl<A: CurvePoint> ImportJob<A> {
    /// Imports `count` points from `arrival`. If `promised` is set, it must be the payload's hash.
    pub fn new(
        host: Arc<ComputeHost>,
        (encoding, count): (PointEncoding, usize),
        promised: Option<[u8; 32]>,
        arrival: Arc<UploadBuffer>,
        wake: JobWaker,
    ) -> Self {
        Self {
            host,
            payload: JobPayload::new(arrival, wake),
            encoding,
            point_count: count,
            expected_hash: promised,
            hasher: blake3::Hasher::new(),
            points: Vec::new(),
        }
    }

    /// The engine's checker and the points per step; `None` if the host checks the points.
    fn checker(&self) -> Option<(&dyn PointChecker, usize)> {
        let checker = self.host.engine.point_checker()?;
        Some((checker, checker.piece_len(A::GROUP, self.encoding, self.point_count)?))
    }

    fn piece(&self) -> Range<u64> {
        let width = self.encoding.point_bytes(A::GROUP) as u64;
        let piece = self.checker().map_or(HOST_PIECE_POINTS, |(_, piece)| piece);
        let end = (self.points.len() + piece).min(self.point_count);
        self.points.len() as u64 * width..end as u64 * width
    }

    /// Allocates for `more` points, but not for points that are announced and have not arrived.
    fn grow(&mut self, more: usize) {
        let (len, capacity) = (self.points.len(), self.points.capacity());
        if capacity - len < more {
            // Doubles the capacity to bound moves, but not beyond the announced count.
            let wanted = (2 * capacity).clamp(len + more, self.point_count.max(len + more));
            self.points.reserve_exact(wanted - len);
        }
    }

    /// Decodes and checks the points in `bytes`, and appends them.
    fn read(&mut self, bytes: &[u8]) -> Result<Result<(), points::BadElement>> {
        let count = bytes.len() / self.encoding.point_bytes(A::GROUP);
        self.grow(count);
        if self.checker().is_none() {
            // Decoding a point takes far longer than its bytes suggest.
            let decode = || points::decode::<A>(self.encoding, bytes);
            let decoded = self.host.run_sized(bytes.len() << 8, decode);
            return Ok(decoded.map(|points| self.points.extend(points)));
        }
        let first = self.points.len();
        self.points.resize(first + count, A::zero());
        let out = A::points_mut(&mut self.points[first..]);
        let checker = self.host.engine.point_checker().expect("`checker` returned it above");
        checker.check(self.encoding, bytes, out)
    }

    fn finish(&mut self) -> Result<ImportedBases> {
        let payload_hash = self.hasher.finalize().into();
        if self.expected_hash.is_some_and(|promised| promised != payload_hash) {
            return Err(Error::HashMismatch);
        }
        let points = std::mem::take(&mut self.points);
        let bytes = points.len() * A::GROUP.affine_bytes();
        let id = self.host.run_sized(bytes, || points::content_hash(&points));
        let infinities = points.iter().filter(|point| point.is_zero()).count() as u64;
        let bases = A::into_bases(PointSlice::new(Arc::new(points)));
        Ok(ImportedBases { bases, id, infinities, payload_hash })
    }
}

impl<A: CurvePoint> JobWork for ImportJob<A> {
    type Output = ImportedBases;

    fn span(&self, id: u64) -> Span {
        let (op, group, n) = ("import", A::GROUP.name(), self.point_count);
        debug_span!("job", id, op, group, n, queue_us = Empty, run_us = Empty)
    }

    fn ready(&self) -> bool {
        self.payload.ready(self.piece())
    }

    fn step(&mut self, _: &JobControl) -> Result<Option<ImportedBases>> {
        let Some(bytes) = self.payload.bytes(self.piece())? else {
            return Ok(None);
        };
        self.host.run_sized(bytes.len(), || self.hasher.update_rayon(&bytes));
        let first = self.points.len();
        let checked = self.read(&bytes)?;
        let at = |bad: points::BadElement| {
            Error::element("points", first as u64 + bad.index, bad.problem)
        };
        checked.map_err(at)?;
        (self.points.len() == self.point_count).then(|| self.finish()).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        curve::G1Affine,
        engine::cpu::{ArkworksEngine, CpuEngine},
        jobs::Scheduler,
    };

    #[test]
    fn allocates_for_points_that_arrived_not_for_points_that_were_announced() {
        let engine = Arc::new(CpuEngine::new(1).unwrap());
        let oracle = Arc::new(ArkworksEngine::new(1).unwrap());
        let host = Arc::new(ComputeHost::new(engine, oracle).unwrap());
        let one = points::encode(PointEncoding::Montgomery, &[G1Affine::identity()]);
        let (scheduler, mut capacities) = (Scheduler::new(1).unwrap(), Vec::new());
        for count in [1 << 40, 5] {
            let (host, arrival) = (host.clone(), Arc::new(UploadBuffer::new(96, vec![])));
            let what = (PointEncoding::Montgomery, count);
            let _ticket = scheduler.submit(JobControl::default(), |wake| {
                let mut work = ImportJob::<G1Affine>::new(host, what, None, arrival, wake);
                capacities.push(work.points.capacity());
                for _ in 0..5 {
                    work.read(&one).unwrap().unwrap();
                    capacities.push(work.points.capacity());
                }
                work
            });
        }
        assert_eq!(capacities, [0, 1, 2, 4, 4, 8, 0, 1, 2, 4, 4, 5]);
    }
}
