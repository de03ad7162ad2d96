//! Products of a sparse matrix and vectors.

use super::{
    DeviceVector, ElementPtr, THREADS, grid, kernel_fault, overlap, sparse_tasks::RowTask,
};
use crate::{
    device::{
        BlockShape, DeviceArena, DeviceFault, DeviceLease, DevicePtr, DeviceSlice, Gpu,
        GpuUnavailable, Kernel, KernelModule, Stream,
    },
    ntt::elements::ELEMENT_BYTES,
};

/// A column and the index of a coefficient, of which the first two are 1 and -1, and not stored.
pub type DeviceTerm = [u32; 2];

/// Parameters: coefficients, terms, row ends, tasks, vector, out, sums of pieces.
#[rustfmt::skip]
type ProductsKernel = Kernel<(
    ElementPtr, DevicePtr<DeviceTerm>, DevicePtr<u32>, DevicePtr<RowTask>, ElementPtr, ElementPtr,
    ElementPtr,
)>;
/// Parameters: rows, sums of pieces, out.
type SplitRowsKernel = Kernel<(DevicePtr<RowTask>, ElementPtr, ElementPtr)>;

/// A sparse matrix in device memory, and the tasks for it.
#[derive(Clone, Copy)]
pub struct DeviceMatrix<'a> {
    pub columns: usize,
    pub coefficients: DeviceVector<'a>,
    /// Row by row. The columns and the coefficients exist.
    pub terms: DeviceSlice<'a, DeviceTerm>,
    /// For each row, the index after its last term.
    pub row_ends: DeviceSlice<'a, u32>,
    /// [`SparseTasks::products`](super::SparseTasks::products) of these rows.
    pub products: DeviceSlice<'a, RowTask>,
    /// [`SparseTasks::split_rows`](super::SparseTasks::split_rows) of these rows.
    pub split_rows: DeviceSlice<'a, RowTask>,
    /// The number of pieces.
    pub pieces: usize,
}

pub(super) struct SparseMultiplier {
    products: ProductsKernel,
    split_rows: SplitRowsKernel,
    arena: DeviceArena,
}

impl SparseMultiplier {
    pub fn load(gpu: &Gpu) -> Result<Self, GpuUnavailable> {
        let module = KernelModule::load(gpu.context(), "ntt/sparse")?;
        let failed = |fault| GpuUnavailable::Device { index: gpu.identity().index, fault };
        let block = BlockShape::threads(THREADS);
        Ok(Self {
            products: module.kernel("fr_sparse_products", block).map_err(failed)?,
            split_rows: module.kernel("fr_sparse_split_rows", block).map_err(failed)?,
            arena: gpu.arena().clone(),
        })
    }

    pub fn run(
        &self,
        stream: &Stream,
        out: DeviceVector<'_>,
        matrix: &DeviceMatrix<'_>,
        vectors: DeviceVector<'_>,
        count: usize,
    ) -> Result<(), DeviceFault> {
        let &DeviceMatrix { columns, coefficients, terms, row_ends, products, split_rows, pieces } =
            matrix;
        let rows = row_ends.len();
        if Some(vectors.len()) != count.checked_mul(columns)
            || Some(out.len()) != count.checked_mul(rows)
        {
            return Err(kernel_fault("vectors do not match the matrix"));
        }
        if overlap(&out, &vectors) {
            return Err(kernel_fault("products overlap the vectors"));
        }
        if out.is_empty() {
            return Ok(());
        }
        // One vector after another: they share the sums of pieces.
        let scratch = (pieces > 0)
            .then(|| self.arena.lease(stream, pieces as u64 * ELEMENT_BYTES))
            .transpose()?;
        let sums = scratch.as_ref().map_or(out, DeviceLease::all);
        let (products_grid, split_grid) =
            (grid(products.len() as u64)?, grid(split_rows.len() as u64)?);
        for index in 0..count {
            let vector = vectors.slice(index * columns, columns).expect("counted above");
            let out = out.slice(index * rows, rows).expect("counted above");
            let arguments = (coefficients, terms, row_ends, products, vector, out, sums);
            self.products.launch(stream, products_grid, arguments)?;
            self.split_rows.launch(stream, split_grid, (split_rows, sums, out))?;
        }
        Ok(())
    }
}
