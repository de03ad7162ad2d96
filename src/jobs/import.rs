//! Imports bases: decodes and checks points as they arrive, computes their id at the end.

use std::{ops::Range, sync::Arc};

use tracing::{Span, debug_span, field::Empty};

use super::{ComputeHost, JobWaker, JobWork, payload::JobPayload};
use crate::{
    buffer::UploadBuffer,
    curve::points::{self, Bases, CurvePoint, PointEncoding, PointSlice},
    engine::JobControl,
    error::{Error, Result},
};

/// Points that the host checks in one step, of 0.2 s (`benches/experiments/cpu-engine.md`).
const HOST_PIECE_POINTS: usize = 4096;

pub struct ImportedBases {
    pub bases: Bases,
    /// The content hash that names them.
    pub id: [u8; 32],
    pub infinities: u64,
    /// BLAKE3 of the payload.
    pub payload_hash: [u8; 32],
}

pub struct BasesImport {
    pub encoding: PointEncoding,
    pub point_count: usize,
    /// BLAKE3 that the payload must have, if set.
    pub expected_hash: Option<[u8; 32]>,
}

pub struct ImportJob<A> {
    host: Arc<ComputeHost>,
    import: BasesImport,
    payload: JobPayload,
    hasher: blake3::Hasher,
    points: Vec<A>,
}

impl<A: CurvePoint> ImportJob<A> {
    pub fn new(
        host: Arc<ComputeHost>,
        import: BasesImport,
        payload: Arc<UploadBuffer>,
        waker: JobWaker,
    ) -> Self {
        let payload = JobPayload::new(payload, waker);
        Self { host, import, payload, hasher: blake3::Hasher::new(), points: Vec::new() }
    }

    /// The points that the engine's checker checks in one step; `None` if the host checks them.
    fn checker_piece_points(&self) -> Option<usize> {
        let BasesImport { encoding, point_count, .. } = self.import;
        self.host.executor.point_checker()?.piece_len(A::GROUP, encoding, point_count)
    }

    /// The bytes of the next step.
    fn next_piece(&self) -> Range<u64> {
        let point_bytes = self.import.encoding.point_bytes(A::GROUP) as u64;
        let piece_points = self.checker_piece_points().unwrap_or(HOST_PIECE_POINTS);
        let end = (self.points.len() + piece_points).min(self.import.point_count);
        self.points.len() as u64 * point_bytes..end as u64 * point_bytes
    }

    /// Allocates for `more` points, but not for points that are announced and have not arrived.
    fn grow(&mut self, more: usize) {
        let (len, capacity) = (self.points.len(), self.points.capacity());
        if capacity - len < more {
            // Doubles the capacity to bound moves, but not beyond the announced count.
            let needed = len + more;
            let capacity = (2 * capacity).clamp(needed, self.import.point_count.max(needed));
            self.points.reserve_exact(capacity - len);
        }
    }

    /// Decodes and checks the points in `bytes`, and appends them.
    fn read(&mut self, bytes: &[u8]) -> Result<Result<(), points::BadElement>> {
        let encoding = self.import.encoding;
        let count = bytes.len() / encoding.point_bytes(A::GROUP);
        self.grow(count);
        let checker = self.host.executor.point_checker();
        let Some(checker) = checker.filter(|_| self.checker_piece_points().is_some()) else {
            // Decoding a point takes far longer than its bytes suggest.
            let decode = || points::decode::<A>(encoding, bytes);
            let decoded = self.host.run_sized(bytes.len() << 8, decode);
            return Ok(decoded.map(|points| self.points.extend(points)));
        };
        let first = self.points.len();
        self.points.resize(first + count, A::zero());
        checker.check(encoding, bytes, A::points_mut(&mut self.points[first..]))
    }

    fn finish(&mut self) -> Result<ImportedBases> {
        let payload_hash = self.hasher.finalize().into();
        if self.import.expected_hash.is_some_and(|expected| expected != payload_hash) {
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
        let (op, group, n) = ("import", A::GROUP.name(), self.import.point_count);
        debug_span!("job", id, op, group, n, queue_us = Empty, run_us = Empty)
    }

    fn is_ready(&self) -> bool {
        self.payload.is_ready(self.next_piece())
    }

    fn step(&mut self, _: &JobControl) -> Result<Option<ImportedBases>> {
        let Some(bytes) = self.payload.bytes(self.next_piece())? else {
            return Ok(None);
        };
        self.host.run_sized(bytes.len(), || self.hasher.update_rayon(&bytes));
        let first = self.points.len();
        let checked = self.read(&bytes)?;
        checked.map_err(|bad| Error::element("points", first as u64 + bad.index, bad.problem))?;
        (self.points.len() == self.import.point_count).then(|| self.finish()).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        buffer::PayloadPool,
        curve::G1Affine,
        engine::cpu::{ArkworksEngine, CpuEngine},
        exec::HostExecutor,
        jobs::Scheduler,
    };

    #[test]
    fn allocates_for_points_that_arrived_not_for_points_that_were_announced() {
        let engine = Arc::new(CpuEngine::new(1).unwrap());
        let oracle = Arc::new(ArkworksEngine::new(1).unwrap());
        let executor = HostExecutor { engine, oracle };
        let host = Arc::new(ComputeHost::new(Arc::new(executor)).unwrap());
        let one = points::encode(PointEncoding::Montgomery, &[G1Affine::identity()]);
        let (scheduler, mut capacities) = (Scheduler::new(1).unwrap(), Vec::new());
        let pool = PayloadPool::new(0, 0).unwrap();
        for count in [1 << 40, 5] {
            let (host, payload) = (host.clone(), Arc::new(UploadBuffer::new(&pool, 96, vec![])));
            let (encoding, expected_hash) = (PointEncoding::Montgomery, None);
            let import = BasesImport { encoding, point_count: count, expected_hash };
            let _ticket = scheduler.submit(JobControl::default(), |wake| {
                let mut work = ImportJob::<G1Affine>::new(host, import, payload, wake);
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
