//! Sparse matrices kept on a device between jobs, with the tasks of their products: an LRU cache,
//! keyed by the memory of the host's matrix.

use std::{sync::Arc, time::Instant};

use bytemuck::Pod;
use parking_lot::Mutex;
use tracing::{debug, info};

use super::resident_upload::upload;
use crate::{
    device::{DeviceFault, DeviceLease, DeviceSlice, Gpu, GpuUnavailable, Stream},
    engines::JobControl,
    error::{Error, Result},
    ntt::{DeviceMatrix, RowTask, SparseTaskBuilder, SparseTasks},
    sparse::{SparseMatrix, SparseShape, WeakMatrix},
};

/// Rows whose tasks are listed between two checks of `control`: a few milliseconds.
const CHECK_ROWS: usize = 1 << 20;

/// A matrix on a device: its bytes as on the host, then the tasks.
pub struct ResidentMatrix {
    lease: DeviceLease,
    shape: SparseShape,
    /// The number of tasks for products, of rows that are split, and of their pieces.
    products: usize,
    split_rows: usize,
    pieces: usize,
}

/// The matrices on one device.
pub struct ResidentMatrices {
    gpu: Gpu,
    /// Uploads the matrices and owns their memory, so that no job waits for another one that has
    /// uploaded its matrix.
    stream: Stream,
    /// Least recently used first.
    entries: Mutex<Vec<MatrixEntry>>,
    /// Single flight: one matrix is loaded at a time, as two jobs may want the same one.
    load_lock: Mutex<()>,
}

struct MatrixEntry {
    matrix: WeakMatrix,
    resident: Arc<ResidentMatrix>,
}

impl MatrixEntry {
    fn is_idle(&self) -> bool {
        Arc::strong_count(&self.resident) == 1
    }
}

impl ResidentMatrix {
    /// The matrix as kernels take it.
    pub fn on_device(&self) -> DeviceMatrix<'_> {
        let SparseShape { rows, columns, terms, coefficients } = self.shape;
        let mut bytes = LeaseParts { all: self.lease.all(), taken: 0 };
        let mut tasks = LeaseParts { taken: tasks_start(self.shape), ..bytes };
        DeviceMatrix {
            columns: columns as usize,
            coefficients: bytes.take(coefficients as usize),
            terms: bytes.take(terms as usize),
            row_ends: bytes.take(rows as usize),
            products: tasks.take(self.products),
            split_rows: tasks.take(self.split_rows),
            pieces: self.pieces,
        }
    }
}

/// Parts of a lease, one after another.
struct LeaseParts<'a> {
    all: DeviceSlice<'a, u8>,
    /// Bytes before the next part.
    taken: usize,
}

impl<'a> LeaseParts<'a> {
    fn take<T: Pod>(&mut self, count: usize) -> DeviceSlice<'a, T> {
        let bytes = count * size_of::<T>();
        let part = self.all.slice(self.taken, bytes).and_then(|part| part.cast());
        self.taken += bytes;
        part.expect("the lease holds all parts, aligned")
    }
}

/// The offset of the tasks in the lease: kernels load a task at once.
fn tasks_start(shape: SparseShape) -> usize {
    (shape.bytes() as usize).next_multiple_of(size_of::<RowTask>())
}

impl ResidentMatrices {
    pub fn new(gpu: &Gpu) -> std::result::Result<Self, GpuUnavailable> {
        let failed = |fault| GpuUnavailable::Device { index: gpu.identity().index, fault };
        let stream = Stream::new(gpu.context()).map_err(failed)?;
        let (entries, load_lock) = Default::default();
        Ok(Self { gpu: gpu.clone(), stream, entries, load_lock })
    }

    pub fn contains(&self, matrix: &SparseMatrix) -> bool {
        self.entries.lock().iter().any(|entry| entry.matrix.is_of(matrix))
    }

    /// The matrix, which is uploaded on its first use to memory of `lease`.
    ///
    /// Errors: those of `lease` and of `control`; `DeviceLost`.
    pub fn get(
        &self,
        matrix: &SparseMatrix,
        control: &JobControl,
        lease: impl FnOnce(&Stream, u64) -> std::result::Result<DeviceLease, DeviceFault>,
    ) -> Result<Arc<ResidentMatrix>> {
        if let Some(found) = self.find(matrix) {
            return Ok(found);
        }
        let _alone = self.load_lock.lock();
        // Another job may have loaded it while this one waited for the lock.
        if let Some(found) = self.find(matrix) {
            return Ok(found);
        }
        let resident = Arc::new(self.load(matrix, control, lease)?);
        let entry = MatrixEntry { matrix: matrix.downgrade(), resident: resident.clone() };
        self.entries.lock().push(entry);
        Ok(resident)
    }

    /// Finds a matrix and makes it the most recently used.
    fn find(&self, matrix: &SparseMatrix) -> Option<Arc<ResidentMatrix>> {
        let mut entries = self.entries.lock();
        entries.retain(|entry| entry.matrix.is_alive());
        let index = entries.iter().position(|entry| entry.matrix.is_of(matrix))?;
        let entry = entries.remove(index);
        let found = entry.resident.clone();
        entries.push(entry);
        Some(found)
    }

    fn load(
        &self,
        matrix: &SparseMatrix,
        control: &JobControl,
        lease: impl FnOnce(&Stream, u64) -> std::result::Result<DeviceLease, DeviceFault>,
    ) -> Result<ResidentMatrix> {
        let begun = Instant::now();
        let mut tasks = SparseTaskBuilder::default();
        for row_ends in matrix.row_ends().chunks(CHECK_ROWS) {
            control.check()?;
            tasks.add_rows(row_ends);
        }
        let SparseTasks { mut products, split_rows, pieces } = tasks.build();
        let shape = matrix.shape();
        let product_count = products.len();
        let split_count = split_rows.len();
        products.extend(split_rows);
        let start = tasks_start(shape);
        let tasks = bytemuck::cast_slice(&products);
        let memory = lease(&self.stream, (start + tasks.len()) as u64)?;
        let all = memory.all();
        let to_tasks = all.slice(start, tasks.len()).expect("leased above");
        upload(&self.gpu, &self.stream, all, matrix.as_bytes(), control)?;
        upload(&self.gpu, &self.stream, to_tasks, tasks, control)?;
        self.stream.synchronize()?;
        if !matrix.is_intact() {
            // Kernels rely on the order of the rows' ends.
            return Err(Error::DiskFailed);
        }
        info!(
            rows = shape.rows,
            columns = shape.columns,
            terms = shape.terms,
            tasks = product_count,
            bytes = memory.bytes(),
            upload_ms = begun.elapsed().as_millis() as u64,
            "matrix loaded on the device",
        );
        let products = product_count;
        let split_rows = split_count;
        Ok(ResidentMatrix { lease: memory, shape, products, split_rows, pieces })
    }

    /// Evicts a matrix. Jobs that use it keep its memory until they end.
    pub fn evict(&self, matrix: &SparseMatrix) {
        self.entries.lock().retain(|entry| !entry.matrix.is_of(matrix));
    }

    /// Evicts the least recently used matrix that no job uses. False if there is none.
    pub fn evict_idle(&self) -> bool {
        let mut entries = self.entries.lock();
        let idle = entries.iter().position(MatrixEntry::is_idle);
        let Some(index) = idle else { return false };
        let evicted = entries.remove(index).resident;
        debug!(bytes = evicted.lease.bytes(), "evicted a matrix from the device");
        true
    }

    /// Calls `work` with the memory of all matrices that no job uses.
    pub fn with_idle<T>(&self, work: impl FnOnce(Vec<&DeviceLease>) -> T) -> T {
        let entries = self.entries.lock();
        let idle = entries.iter().filter(|entry| entry.is_idle());
        work(idle.map(|entry| &entry.resident.lease).collect())
    }
}
