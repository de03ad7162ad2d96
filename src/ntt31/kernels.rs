//! Loads the kernels of `kernels/ntt31`.

use super::elements::PrimeParameters;
use crate::device::{
    BlockShape, DeviceFault, DevicePtr, Gpu, GpuUnavailable, Kernel, KernelModule,
};

type Word31Ptr = DevicePtr<u32>;
/// Twiddle factors with their Shoup quotients: see [`super::elements::twiddle`].
type Twiddle31Ptr = DevicePtr<u64>;

/// Parameters: in, out, twiddles, starts, steps, factors, lg_block, flags, prime.
pub(super) type ColumnsKernel31 = Kernel<(
    Word31Ptr,
    Word31Ptr,
    Twiddle31Ptr,
    Word31Ptr,
    Word31Ptr,
    Twiddle31Ptr,
    u32,
    u32,
    PrimeParameters,
)>;
/// Parameters: in, out, twiddles, factors, lg_n, flags, prime.
pub(super) type LastKernel31 =
    Kernel<(Word31Ptr, Word31Ptr, Twiddle31Ptr, Twiddle31Ptr, u32, u32, PrimeParameters)>;
/// Parameters: in, out, twiddles, factors before, factors after, rows, flags, prime.
pub(super) type SingleKernel31 = Kernel<(
    Word31Ptr,
    Word31Ptr,
    Twiddle31Ptr,
    Option<Twiddle31Ptr>,
    Option<Twiddle31Ptr>,
    u32,
    u32,
    PrimeParameters,
)>;

/// The `flags` of `kernels/ntt31/pass.cuh`.
pub(super) mod flag31 {
    pub const INPUT_REVERSED: u32 = 1;
    pub const OUTPUT_NATURAL: u32 = 2;
    pub const SCALED: u32 = 4;
}

/// log2 of the radices of a transform of several passes.
const LG_RADIX_MIN: u32 = 5;
const LG_RADIX_MAX: u32 = 10;

/// The kernels of passes, by log2 of their radix.
pub(super) struct Ntt31Kernels {
    columns: Vec<ColumnsKernel31>,
    last: Vec<LastKernel31>,
    single: Vec<SingleKernel31>,
}

/// log2 of a tile's lanes, for a pass of radix 2^`lg_r`.
pub(super) const fn lg_lanes(lg_r: u32) -> u32 {
    if lg_r > 9 { 14 - lg_r } else { 5 }
}

/// log2 of a tile's words.
pub(super) const fn lg_tile(lg_r: u32) -> u32 {
    lg_r + lg_lanes(lg_r)
}

/// log2 of the points of a thread, and of the first digit.
pub(super) const fn lg_first_digit(lg_r: u32) -> u32 {
    lg_r.div_ceil(2)
}

impl Ntt31Kernels {
    pub fn load(gpu: &Gpu) -> Result<Self, GpuUnavailable> {
        let module = KernelModule::load(gpu.context(), "ntt31/passes")?;
        let load = || {
            let several = LG_RADIX_MIN..=LG_RADIX_MAX;
            let kernel = |kind: &str, lg_r: u32| (format!("ntt31_{kind}_{lg_r}"), block(lg_r));
            let columns = several.clone().map(|lg_r| {
                let (name, block) = kernel("columns", lg_r);
                module.kernel(&name, block)
            });
            let last = several.map(|lg_r| {
                let (name, block) = kernel("last", lg_r);
                module.kernel(&name, block)
            });
            let single = (1..=LG_RADIX_MAX).map(|lg_r| {
                let (name, block) = kernel("single", lg_r);
                module.kernel(&name, block)
            });
            Ok(Self {
                columns: columns.collect::<Result<_, _>>()?,
                last: last.collect::<Result<_, _>>()?,
                single: single.collect::<Result<_, _>>()?,
            })
        };
        load().map_err(|fault| GpuUnavailable::Device { index: gpu.identity().index, fault })
    }

    pub fn columns(&self, lg_r: u32) -> Result<&ColumnsKernel31, DeviceFault> {
        at(&self.columns, lg_r, LG_RADIX_MIN)
    }

    pub fn last(&self, lg_r: u32) -> Result<&LastKernel31, DeviceFault> {
        at(&self.last, lg_r, LG_RADIX_MIN)
    }

    pub fn single(&self, lg_r: u32) -> Result<&SingleKernel31, DeviceFault> {
        at(&self.single, lg_r, 1)
    }
}

fn at<K>(kernels: &[K], lg_r: u32, lg_min: u32) -> Result<&K, DeviceFault> {
    let kernel = lg_r.checked_sub(lg_min).and_then(|index| kernels.get(index as usize));
    kernel.ok_or_else(|| mismatch(format!("no kernel for a radix of 2^{lg_r}")))
}

fn block(lg_r: u32) -> BlockShape {
    let shared_bytes = (size_of::<u32>() as u32) << lg_tile(lg_r);
    BlockShape { threads: 1 << (lg_tile(lg_r) - lg_first_digit(lg_r)), shared_bytes }
}

pub(super) fn mismatch(problem: String) -> DeviceFault {
    DeviceFault::KernelMismatch { kernel: "ntt31".into(), problem }
}
