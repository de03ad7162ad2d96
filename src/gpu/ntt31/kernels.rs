//! Loads the kernels of `kernels/ntt31`.

use super::{
    elements::PrimeParameters,
    shapes::{PassShape, SMALL_THREADS, columns_shape, rows_shape},
};
use crate::device::{
    BlockShape, DeviceFault, DevicePtr, DeviceSlice, Gpu, GpuUnavailable, Kernel, KernelModule,
};

/// In the names of the kernels that multiply rows.
pub(super) const PRODUCT_KIND: &str = "rows_product";

/// Words of all rows in device memory: canonical elements in Montgomery form.
pub type WordVector<'a> = DeviceSlice<'a, u32>;

pub(super) type Word31Ptr = DevicePtr<u32>;
/// Twiddle factors with their Shoup quotients: see [`super::elements::twiddle`].
type Twiddle31Ptr = DevicePtr<u64>;
/// Stride and length: the struct `Layout31` of `kernels/ntt31/layout.cuh`.
pub(super) type WordLayout = [u64; 2];
/// A step and its square.
type Steps31Ptr = DevicePtr<[u64; 2]>;

/// Parameters: in, stride, length, out, twiddles, starts, steps, natural factors, lg_block, prime.
type ColumnsDif31 = Kernel<(
    Word31Ptr,
    u64,
    u32,
    Word31Ptr,
    Twiddle31Ptr,
    Word31Ptr,
    Steps31Ptr,
    Option<Twiddle31Ptr>,
    u32,
    PrimeParameters,
)>;
/// Parameters: in, out, stride, length, twiddles, starts, steps, natural factors, lg_block, prime.
type ColumnsDit31 = Kernel<(
    Word31Ptr,
    Word31Ptr,
    u64,
    u32,
    Twiddle31Ptr,
    Word31Ptr,
    Steps31Ptr,
    Option<Twiddle31Ptr>,
    u32,
    PrimeParameters,
)>;
/// Parameters: in, stride, length, out, twiddles, natural factors, reversed factors, rows, prime.
type RowsDif31 = Kernel<(
    Word31Ptr,
    u64,
    u32,
    Word31Ptr,
    Twiddle31Ptr,
    Option<Twiddle31Ptr>,
    Option<Twiddle31Ptr>,
    u64,
    PrimeParameters,
)>;
/// Parameters: in, out, stride, length, twiddles, natural factors, reversed factors, rows, prime.
type RowsDit31 = Kernel<(
    Word31Ptr,
    Word31Ptr,
    u64,
    u32,
    Twiddle31Ptr,
    Option<Twiddle31Ptr>,
    Option<Twiddle31Ptr>,
    u64,
    PrimeParameters,
)>;
/// Parameters: in, its layout, other factor, out, its layout; twiddles and natural factors of the
/// transform there, and of the one back; rows, prime of each.
type RowsProduct31 = Kernel<(
    Word31Ptr,
    WordLayout,
    Option<Word31Ptr>,
    Word31Ptr,
    WordLayout,
    Twiddle31Ptr,
    Option<Twiddle31Ptr>,
    Twiddle31Ptr,
    Option<Twiddle31Ptr>,
    u64,
    PrimeParameters,
    PrimeParameters,
)>;
/// Like [`RowsDif31`], with lg_n before rows.
type SmallDif31 = Kernel<(
    Word31Ptr,
    u64,
    u32,
    Word31Ptr,
    Twiddle31Ptr,
    Option<Twiddle31Ptr>,
    Option<Twiddle31Ptr>,
    u32,
    u64,
    PrimeParameters,
)>;
/// Like [`RowsDit31`], with lg_n before rows.
type SmallDit31 = Kernel<(
    Word31Ptr,
    Word31Ptr,
    u64,
    u32,
    Twiddle31Ptr,
    Option<Twiddle31Ptr>,
    Option<Twiddle31Ptr>,
    u32,
    u64,
    PrimeParameters,
)>;

/// The kernels of both directions of data for one shape.
pub(super) struct ColumnsKernels31 {
    shape: PassShape,
    pub dif: ColumnsDif31,
    pub dit: ColumnsDit31,
}

pub(super) struct RowsKernels31 {
    shape: PassShape,
    pub dif: RowsDif31,
    pub dit: RowsDit31,
    pub product: RowsProduct31,
}

/// The kernels of passes whose tiles fit into the shared memory of a block.
pub(super) struct Ntt31Kernels {
    columns: Vec<ColumnsKernels31>,
    rows: Vec<RowsKernels31>,
    pub small_dif: SmallDif31,
    pub small_dit: SmallDit31,
    /// Parameters: in, out, lg_n, words.
    pub reverse_short_rows: Kernel<(Word31Ptr, Word31Ptr, u32, u64)>,
    /// Parameters: in, out, lg_n.
    pub reverse_long_rows: Kernel<(Word31Ptr, Word31Ptr, u32)>,
}

impl Ntt31Kernels {
    pub fn load(gpu: &Gpu) -> Result<Self, GpuUnavailable> {
        let module = KernelModule::load(gpu.context(), "ntt31/passes")?;
        let load = || {
            let limits = &gpu.identity().limits;
            let fits = |shape: &PassShape| limits.fits(shape.block());
            let columns = shapes(columns_shape).into_iter().filter(fits).map(|shape| {
                let dif =
                    module.kernel(&kernel_name("columns_dif", shape), shape.block())?.with_pdl();
                let dit =
                    module.kernel(&kernel_name("columns_dit", shape), shape.block())?.with_pdl();
                Ok(ColumnsKernels31 { shape, dif, dit })
            });
            let rows = shapes(rows_shape).into_iter().filter(fits).map(|shape| {
                let dif = module.kernel(&kernel_name("rows_dif", shape), shape.block())?.with_pdl();
                let dit = module.kernel(&kernel_name("rows_dit", shape), shape.block())?.with_pdl();
                let product =
                    module.kernel(&kernel_name(PRODUCT_KIND, shape), shape.block())?.with_pdl();
                Ok(RowsKernels31 { shape, dif, dit, product })
            });
            let small = BlockShape { threads: SMALL_THREADS, shared_bytes: 0 };
            Ok(Self {
                columns: columns.collect::<Result<_, DeviceFault>>()?,
                rows: rows.collect::<Result<_, DeviceFault>>()?,
                small_dif: module.kernel("ntt31_small_dif", small)?.with_pdl(),
                small_dit: module.kernel("ntt31_small_dit", small)?.with_pdl(),
                reverse_short_rows: module.kernel("ntt31_reverse_short_rows", small)?.with_pdl(),
                reverse_long_rows: module.kernel("ntt31_reverse_long_rows", small)?.with_pdl(),
            })
        };
        load().map_err(|fault| GpuUnavailable::Device { index: gpu.identity().index, fault })
    }

    /// The shapes of the loaded kernels of passes over rows.
    pub fn row_shapes(&self) -> impl Iterator<Item = PassShape> {
        self.rows.iter().map(|kernels| kernels.shape)
    }

    pub fn columns(&self, shape: PassShape) -> Result<&ColumnsKernels31, DeviceFault> {
        self.columns.iter().find(|kernels| kernels.shape == shape).ok_or_else(|| missing(shape))
    }

    pub fn rows(&self, shape: PassShape) -> Result<&RowsKernels31, DeviceFault> {
        self.rows.iter().find(|kernels| kernels.shape == shape).ok_or_else(|| missing(shape))
    }
}

/// The name of a kernel of this kind, such as `rows_dif`.
pub(super) fn kernel_name(kind: &str, shape: PassShape) -> String {
    let suffix = if shape.is_wide() { "_wide" } else { "" };
    format!("ntt31_{kind}_{}{suffix}", shape.lg_r)
}

/// All shapes of a kind.
fn shapes(of: fn(u32, bool) -> Option<PassShape>) -> Vec<PassShape> {
    let mut shapes: Vec<_> =
        (0..32).flat_map(|lg_r| [of(lg_r, false), of(lg_r, true)]).flatten().collect();
    shapes.dedup();
    shapes
}

fn missing(shape: PassShape) -> DeviceFault {
    mismatch(format!("no kernel for {shape:?}"))
}

pub(super) fn mismatch(problem: String) -> DeviceFault {
    DeviceFault::KernelMismatch { kernel: "ntt31".into(), problem }
}
