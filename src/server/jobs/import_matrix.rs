//! Imports a matrix: checks its parts as they arrive, computes its id at the end.

use std::{ops::Range, sync::Arc, time::Instant};

use tracing::{Span, debug_span, field::Empty};

use super::{ComputeHost, JobWaker, JobWork, payload::JobPayload};
use crate::{
    buffer::{self, ByteSource, UploadBuffer},
    engine::JobControl,
    error::{Error, Result},
    region::SealedMemory,
    sparse::{self, BadMatrix, MatrixChecker, SparseMatrix, SparseShape},
    tenant::DeviceTimeBudget,
};

/// Bytes that one step copies, hashes and checks, in a few milliseconds.
const PIECE_BYTES: u64 = 4 << 20;

pub struct ImportedMatrix {
    /// In sealed memory.
    pub matrix: SparseMatrix,
    /// The content hash that names it.
    pub id: [u8; 32],
    /// BLAKE3 of the payload.
    pub payload_hash: [u8; 32],
}

pub struct MatrixImport {
    pub shape: SparseShape,
    /// BLAKE3 that the payload must have, if set.
    pub expected_hash: Option<[u8; 32]>,
}

pub struct MatrixImportJob {
    host: Arc<ComputeHost>,
    import: MatrixImport,
    payload: JobPayload,
    payload_hasher: blake3::Hasher,
    content_hasher: blake3::Hasher,
    checker: MatrixChecker,
    /// Grows as bytes arrive, not when they are announced.
    memory: SealedMemory,
    /// A piece, aligned to limbs.
    limbs: Vec<u64>,
    /// Charged for the time of each step, also if the matrix is refused.
    device_time: Arc<DeviceTimeBudget>,
}

impl MatrixImportJob {
    pub fn new(
        host: Arc<ComputeHost>,
        import: MatrixImport,
        payload: Arc<UploadBuffer>,
        device_time: Arc<DeviceTimeBudget>,
        waker: JobWaker,
    ) -> Self {
        Self {
            host,
            payload: JobPayload::new(payload, waker),
            payload_hasher: blake3::Hasher::new(),
            content_hasher: sparse::content_hasher(import.shape),
            checker: MatrixChecker::new(import.shape, PIECE_BYTES),
            memory: SealedMemory::default(),
            limbs: Vec::new(),
            device_time,
            import,
        }
    }

    /// Reads and checks a piece that has arrived.
    ///
    /// Errors: `Invalid` for the first element that is wrong, or if the client has released pages
    /// of its region; `Exhausted` if there is no memory.
    fn import_piece(&mut self, piece: Range<u64>) -> Result<()> {
        let len = (piece.end - piece.start) as usize;
        let Some(view) = self.payload.range(piece)? else { return Ok(()) };
        self.limbs.resize(len.div_ceil(size_of::<u64>()), 0);
        let bytes = &mut bytemuck::cast_slice_mut(&mut self.limbs)[..len];
        view.read(0, bytes);
        if !view.is_intact() {
            return Err(Error::released_pages());
        }
        let bytes = &*bytes;
        let (payload_hasher, content_hasher) = (&mut self.payload_hasher, &mut self.content_hasher);
        let checker = &mut self.checker;
        let checked = self.host.run_sized(len, || {
            payload_hasher.update_rayon(bytes);
            content_hasher.update_rayon(bytes);
            checker.check_next(bytes)
        });
        checked.map_err(refusal)?;
        self.memory.append(bytes).map_err(|error| buffer::no_memory(NO_MEMORY, &error))
    }

    fn finish(&mut self) -> Result<ImportedMatrix> {
        let payload_hash = self.payload_hasher.finalize().into();
        if self.import.expected_hash.is_some_and(|expected| expected != payload_hash) {
            return Err(Error::HashMismatch);
        }
        let memory = std::mem::take(&mut self.memory).seal();
        let memory = memory.map_err(|error| buffer::no_memory(NO_MEMORY, &error))?;
        let matrix = SparseMatrix::unchecked(self.import.shape, Arc::new(memory));
        let id = self.content_hasher.finalize().into();
        Ok(ImportedMatrix { matrix: matrix.map_err(refusal)?, id, payload_hash })
    }
}

const NO_MEMORY: &str = "no memory for a matrix";

/// The refusal of a matrix, which names the part of the payload.
fn refusal(BadMatrix { part, index, problem }: BadMatrix) -> Error {
    let field = match part {
        "coefficients" => "matrix.coefficients",
        "terms" => "matrix.terms",
        "row_ends" => "matrix.row_ends",
        _ => "matrix",
    };
    Error::Invalid { field, index, problem }
}

impl JobWork for MatrixImportJob {
    type Output = ImportedMatrix;

    fn span(&self, id: u64) -> Span {
        let (op, terms) = ("import_matrix", self.import.shape.terms);
        debug_span!("job", id, op, terms, queue_us = Empty, run_us = Empty)
    }

    fn is_ready(&self) -> bool {
        self.payload.is_ready(self.checker.next_piece())
    }

    fn step(&mut self, _: &JobControl) -> Result<Option<ImportedMatrix>> {
        let begun = Instant::now();
        let imported = self.import_piece(self.checker.next_piece());
        let imported = imported.and_then(|()| match self.checker.next_piece().is_empty() {
            true => self.finish().map(Some),
            false => Ok(None),
        });
        self.device_time.charge(begun.elapsed());
        imported
    }
}
