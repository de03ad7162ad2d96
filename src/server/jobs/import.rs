//! Imports objects: checks their bytes as they arrive, computes the id at the end.

use std::{io, marker::PhantomData, ops::Range, sync::Arc, time::Instant};

use tracing::{Span, debug_span, error, field::Empty};

use super::{
    ComputeHost, JobWaker, JobWork,
    decode_points::{decode_points, host_piece_points},
};
use crate::{
    buffer::{self, ByteSource, PayloadView, ProgressListener, UploadBuffer},
    curve::{
        layout,
        points::{self, Bases, CurvePoint, PointEncoding},
    },
    engine::JobControl,
    error::{Error, FieldPath, InputError, Result},
    region::SealedMemory,
    sparse::{self, BadMatrix, MatrixChecker, SparseMatrix, SparseShape},
    tenant::DeviceTimeBudget,
};

/// Bytes of a matrix that one step copies, hashes and checks, in a few milliseconds.
const MATRIX_PIECE_BYTES: u64 = 4 << 20;

/// An object whose bytes were checked.
pub struct Imported<T> {
    pub data: T,
    /// The content hash that names it.
    pub id: [u8; 32],
    /// BLAKE3 of the payload.
    pub payload_hash: [u8; 32],
}

/// What an upload becomes, checked piece by piece.
pub trait ImportedContent: Send + 'static {
    type Data: Send + 'static;

    /// The span of the job with this number.
    fn span(&self, id: u64) -> Span;

    /// The bytes of the next step; empty after the last one.
    fn next_piece(&self, host: &ComputeHost) -> Range<u64>;

    /// Checks and keeps the next piece, which is aligned to 8 bytes.
    ///
    /// Errors: `Invalid` for the first element that is wrong; `Exhausted` if there is no memory;
    /// those of `control`.
    fn check(&mut self, host: &ComputeHost, bytes: &[u8], control: &JobControl) -> Result<()>;

    /// The checked data, in sealed memory, and the content hash that names them.
    ///
    /// Errors: `Invalid`; `Exhausted` if there is no memory.
    fn finish(&mut self) -> Result<(Self::Data, [u8; 32])>;
}

/// An upload that becomes an object.
pub struct ObjectImport<C> {
    pub content: C,
    pub payload: Arc<UploadBuffer>,
    /// BLAKE3 that the payload must have, if set.
    pub expected_hash: Option<[u8; 32]>,
    /// Charged for the time of each step, also if the object is refused.
    pub device_time: Arc<DeviceTimeBudget>,
}

pub struct ImportJob<C> {
    host: Arc<ComputeHost>,
    import: ObjectImport<C>,
    payload_hasher: blake3::Hasher,
    /// Wakes the job when bytes arrive or the upload fails.
    _listener: Arc<ProgressListener>,
}

impl<C: ImportedContent> ImportJob<C> {
    pub fn new(host: Arc<ComputeHost>, import: ObjectImport<C>, waker: JobWaker) -> Self {
        let listener: Arc<ProgressListener> = Arc::new(move || waker.wake());
        import.payload.listen(&listener);
        let payload_hasher = blake3::Hasher::new();
        Self { host, import, payload_hasher, _listener: listener }
    }

    /// Checks the next piece if it has arrived; `Some` after the last one.
    ///
    /// Errors: those of the content; `Invalid` if the client has released pages of its region;
    /// `HashMismatch`.
    fn import_piece(&mut self, control: &JobControl) -> Result<Option<Imported<C::Data>>> {
        let ObjectImport { content, payload, expected_hash, .. } = &mut self.import;
        let piece = content.next_piece(&self.host);
        let len = (piece.end - piece.start) as usize;
        let Some(view) = PayloadView::received(payload, piece) else {
            return payload.failure().map_or(Ok(None), |failure| Err(failure.into()));
        };
        // Not kept while the job waits: no budget counts it.
        let mut limbs = vec![0_u64; len.div_ceil(size_of::<u64>())];
        let bytes = &mut bytemuck::cast_slice_mut(&mut limbs)[..len];
        view.read(0, bytes);
        if !view.is_intact() {
            return Err(InputError::released_pages().into());
        }
        let hasher = &mut self.payload_hasher;
        self.host.run_sized(len, || hasher.update_rayon(bytes));
        content.check(&self.host, bytes, control)?;
        if !content.next_piece(&self.host).is_empty() {
            return Ok(None);
        }
        let payload_hash = self.payload_hasher.finalize().into();
        if expected_hash.is_some_and(|expected| expected != payload_hash) {
            return Err(Error::HashMismatch);
        }
        let (data, id) = content.finish()?;
        Ok(Some(Imported { data, id, payload_hash }))
    }
}

impl<C: ImportedContent> JobWork for ImportJob<C> {
    type Output = Imported<C::Data>;

    fn span(&self, id: u64) -> Span {
        self.import.content.span(id)
    }

    fn is_ready(&self) -> bool {
        let ObjectImport { content, payload, .. } = &self.import;
        payload.has_received(content.next_piece(&self.host)) || payload.failure().is_some()
    }

    fn step(&mut self, control: &JobControl) -> Result<Option<Self::Output>> {
        let begun = Instant::now();
        let imported = self.import_piece(control);
        self.import.device_time.charge(begun.elapsed());
        imported
    }
}

/// Points to decode and check.
pub struct PointsImport<A> {
    encoding: PointEncoding,
    count: usize,
    /// Of the points, by which the bases are named.
    content_hasher: blake3::Hasher,
    /// Grows as points arrive, not when they are announced.
    points: SealedMemory,
    /// The number of points read so far, and of those at infinity.
    read: usize,
    infinities: u64,
    group: PhantomData<A>,
}

pub struct ImportedBases {
    pub bases: Bases,
    pub infinities: u64,
}

impl<A: CurvePoint> PointsImport<A> {
    pub fn new(encoding: PointEncoding, count: usize) -> Self {
        let content_hasher = points::content_hasher(A::GROUP);
        let points = SealedMemory::default();
        Self { encoding, count, content_hasher, points, read: 0, infinities: 0, group: PhantomData }
    }

    /// The points that the engine's checker checks in one step; `None` if the host checks them.
    fn checker_piece_points(&self, host: &ComputeHost) -> Option<usize> {
        host.executor.point_checker()?.piece_len(A::GROUP, self.encoding, self.count)
    }

    /// Decodes and checks the points in `bytes`.
    fn decode(
        &self,
        host: &ComputeHost,
        bytes: &[u8],
        control: &JobControl,
    ) -> Result<Result<Vec<A>, points::BadElement>> {
        let checker = host.executor.point_checker();
        let Some(checker) = checker.filter(|_| self.checker_piece_points(host).is_some()) else {
            return decode_points(host, self.encoding, bytes, control);
        };
        let count = bytes.len() / self.encoding.point_bytes(A::GROUP);
        let mut points = vec![A::zero(); count];
        if let Err(bad) = checker.check(self.encoding, bytes, A::points_mut(&mut points))? {
            return Ok(Err(bad));
        }
        // One transient fault of a device would stay in the bases for good.
        let is_right = || points::encode(self.encoding, &points) == bytes;
        if host.run_sized(bytes.len(), is_right) {
            return Ok(Ok(points));
        }
        error!(points = count, "a device decoded points wrong: the host does");
        decode_points(host, self.encoding, bytes, control)
    }
}

impl<A: CurvePoint> ImportedContent for PointsImport<A> {
    type Data = ImportedBases;

    fn span(&self, id: u64) -> Span {
        let op = "import";
        let group = A::GROUP.name();
        let n = self.count;
        debug_span!("job", id, op, group, n, queue_us = Empty, run_us = Empty)
    }

    fn next_piece(&self, host: &ComputeHost) -> Range<u64> {
        let point_bytes = self.encoding.point_bytes(A::GROUP) as u64;
        let on_host = || host_piece_points(A::GROUP);
        let piece_points = self.checker_piece_points(host).unwrap_or_else(on_host);
        let end = (self.read + piece_points).min(self.count);
        self.read as u64 * point_bytes..end as u64 * point_bytes
    }

    fn check(&mut self, host: &ComputeHost, bytes: &[u8], control: &JobControl) -> Result<()> {
        let first = self.read as u64;
        let points = self
            .decode(host, bytes, control)?
            .map_err(|bad| Error::element("points", first + bad.index, bad.problem))?;
        self.infinities += points.iter().filter(|point| point.is_zero()).count() as u64;
        self.read += points.len();
        let points = layout::points_as_bytes(&points);
        // Hashed now, because hashing all points at the end could not be cancelled.
        host.run_sized(points.len(), || self.content_hasher.update_rayon(points));
        self.points.append(points).map_err(no_memory)
    }

    fn finish(&mut self) -> Result<(ImportedBases, [u8; 32])> {
        let points = std::mem::take(&mut self.points).seal().map_err(no_memory)?;
        let bases = points.into_bases(A::GROUP).map_err(no_memory)?;
        let imported = ImportedBases { bases, infinities: self.infinities };
        Ok((imported, self.content_hasher.finalize().into()))
    }
}

/// A matrix to check.
pub struct MatrixImport {
    shape: SparseShape,
    content_hasher: blake3::Hasher,
    checker: MatrixChecker,
    /// Grows as bytes arrive, not when they are announced.
    memory: SealedMemory,
}

impl MatrixImport {
    pub fn new(shape: SparseShape) -> Self {
        let content_hasher = sparse::content_hasher(shape);
        let checker = MatrixChecker::new(shape, MATRIX_PIECE_BYTES);
        Self { shape, content_hasher, checker, memory: SealedMemory::default() }
    }
}

impl ImportedContent for MatrixImport {
    type Data = SparseMatrix;

    fn span(&self, id: u64) -> Span {
        let op = "import_matrix";
        let terms = self.shape.terms;
        debug_span!("job", id, op, terms, queue_us = Empty, run_us = Empty)
    }

    fn next_piece(&self, _: &ComputeHost) -> Range<u64> {
        self.checker.next_piece()
    }

    fn check(&mut self, host: &ComputeHost, bytes: &[u8], _: &JobControl) -> Result<()> {
        let checked = host.run_sized(bytes.len(), || {
            self.content_hasher.update_rayon(bytes);
            self.checker.check_next(bytes)
        });
        checked.map_err(refusal)?;
        self.memory.append(bytes).map_err(no_memory)
    }

    fn finish(&mut self) -> Result<(SparseMatrix, [u8; 32])> {
        let memory = std::mem::take(&mut self.memory).seal().map_err(no_memory)?;
        let matrix = SparseMatrix::unchecked(self.shape, Arc::new(memory)).map_err(refusal)?;
        Ok((matrix, self.content_hasher.finalize().into()))
    }
}

fn no_memory(error: io::Error) -> Error {
    buffer::no_memory("no memory for an object", &error).into()
}

/// The refusal of a matrix, which names the part of the payload.
fn refusal(BadMatrix { part, index, problem }: BadMatrix) -> InputError {
    let field = match part {
        "coefficients" => "matrix.coefficients",
        "terms" => "matrix.terms",
        "row_ends" => "matrix.row_ends",
        _ => "matrix",
    };
    InputError::Invalid { path: FieldPath::Field(field), index, problem }
}
