//! Imports bases: decodes and checks points as they arrive, computes their id at the end.

use std::{io, marker::PhantomData, ops::Range, sync::Arc, time::Instant};

use tracing::{Span, debug_span, error, field::Empty};

use super::{
    ComputeHost, JobWaker, JobWork,
    decode_points::{decode_points, host_piece_points},
    payload::JobPayload,
};
use crate::{
    buffer::{self, UploadBuffer},
    curve::{
        layout,
        points::{self, Bases, CurvePoint, PointEncoding},
    },
    engine::JobControl,
    error::{Error, Result},
    region::SealedMemory,
    tenant::DeviceTimeBudget,
};

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
    /// Of the points, by which the bases are named.
    content_hasher: blake3::Hasher,
    /// Grows as points arrive, not when they are announced.
    points: SealedMemory,
    /// The number of points read so far, and of those at infinity.
    read: usize,
    infinities: u64,
    /// Charged for the time of each step, also if a point is refused.
    device_time: Arc<DeviceTimeBudget>,
    group: PhantomData<A>,
}

impl<A: CurvePoint> ImportJob<A> {
    pub fn new(
        host: Arc<ComputeHost>,
        import: BasesImport,
        payload: Arc<UploadBuffer>,
        device_time: Arc<DeviceTimeBudget>,
        waker: JobWaker,
    ) -> Self {
        Self {
            host,
            import,
            payload: JobPayload::new(payload, waker),
            hasher: blake3::Hasher::new(),
            content_hasher: points::content_hasher(A::GROUP),
            points: SealedMemory::default(),
            read: 0,
            infinities: 0,
            device_time,
            group: PhantomData,
        }
    }

    /// The points that the engine's checker checks in one step; `None` if the host checks them.
    fn checker_piece_points(&self) -> Option<usize> {
        let BasesImport { encoding, point_count, .. } = self.import;
        self.host.executor.point_checker()?.piece_len(A::GROUP, encoding, point_count)
    }

    /// The bytes of the next step.
    fn next_piece(&self) -> Range<u64> {
        let point_bytes = self.import.encoding.point_bytes(A::GROUP) as u64;
        let on_host = || host_piece_points(A::GROUP);
        let piece_points = self.checker_piece_points().unwrap_or_else(on_host);
        let end = (self.read + piece_points).min(self.import.point_count);
        self.read as u64 * point_bytes..end as u64 * point_bytes
    }

    /// Whether the points are those that `bytes` encodes. Decoding on a device is checked because
    /// one transient fault would stay in the bases for good.
    fn encodes_to(&self, points: &[A], bytes: &[u8]) -> bool {
        let encode = || points::encode(self.import.encoding, points) == bytes;
        self.host.run_sized(bytes.len(), encode)
    }

    fn decode_on_host(
        &self,
        bytes: &[u8],
        control: &JobControl,
    ) -> Result<Result<Vec<A>, points::BadElement>> {
        decode_points(&self.host, self.import.encoding, bytes, control)
    }

    /// Reads and checks the next piece; `Some` after the last one.
    fn import_piece(
        &mut self,
        bytes: &[u8],
        control: &JobControl,
    ) -> Result<Option<ImportedBases>> {
        self.host.run_sized(bytes.len(), || self.hasher.update_rayon(bytes));
        let first = self.read;
        let checked = self.append(bytes, control)?;
        checked.map_err(|bad| Error::element("points", first as u64 + bad.index, bad.problem))?;
        (self.read == self.import.point_count).then(|| self.finish()).transpose()
    }

    /// Decodes and checks the points in `bytes`, and appends them.
    fn append(
        &mut self,
        bytes: &[u8],
        control: &JobControl,
    ) -> Result<Result<(), points::BadElement>> {
        let encoding = self.import.encoding;
        let checker = self.host.executor.point_checker();
        let checked = match checker.filter(|_| self.checker_piece_points().is_some()) {
            Some(checker) => {
                let count = bytes.len() / encoding.point_bytes(A::GROUP);
                let mut points = vec![A::zero(); count];
                match checker.check(encoding, bytes, A::points_mut(&mut points))? {
                    Err(bad) => Err(bad),
                    Ok(()) if self.encodes_to(&points, bytes) => Ok(points),
                    Ok(()) => {
                        error!(points = count, "a device decoded points wrong: the host does");
                        self.decode_on_host(bytes, control)?
                    }
                }
            }
            None => self.decode_on_host(bytes, control)?,
        };
        let points = match checked {
            Ok(points) => points,
            Err(bad) => return Ok(Err(bad)),
        };
        self.infinities += points.iter().filter(|point| point.is_zero()).count() as u64;
        self.read += points.len();
        let points = layout::points_as_bytes(&points);
        // Hashed now, because hashing all points at the end could not be cancelled.
        self.host.run_sized(points.len(), || self.content_hasher.update_rayon(points));
        self.points.append(points).map_err(no_memory)?;
        Ok(Ok(()))
    }

    fn finish(&mut self) -> Result<ImportedBases> {
        let payload_hash = self.hasher.finalize().into();
        if self.import.expected_hash.is_some_and(|expected| expected != payload_hash) {
            return Err(Error::HashMismatch);
        }
        let points = std::mem::take(&mut self.points).seal().map_err(no_memory)?;
        let bases = points.into_bases(A::GROUP).map_err(no_memory)?;
        let id = self.content_hasher.finalize().into();
        Ok(ImportedBases { bases, id, infinities: self.infinities, payload_hash })
    }
}

fn no_memory(error: io::Error) -> Error {
    buffer::no_memory("no memory for bases", &error)
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

    fn step(&mut self, control: &JobControl) -> Result<Option<ImportedBases>> {
        let Some(bytes) = self.payload.bytes(self.next_piece())? else {
            return Ok(None);
        };
        let begun = Instant::now();
        let imported = self.import_piece(&bytes, control);
        self.device_time.charge(begun.elapsed());
        imported
    }
}
