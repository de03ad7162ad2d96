//! Loads the kernels of `kernels/integers`.

use crate::device::{
    BlockShape, DeviceFault, DevicePtr, Gpu, GpuUnavailable, Kernel, KernelModule,
};

type LimbPtr = DevicePtr<u32>;
type FlagPtr = DevicePtr<u8>;

/// Parameters: cyclic, negacyclic, stride, length, limbs, row_stride, limb_count, flags,
/// tiles_of_part.
type LimbsKernel = Kernel<(LimbPtr, Option<LimbPtr>, u64, u32, LimbPtr, u64, u32, FlagPtr, u32)>;
/// Parameters: eight terms, the struct `SumTerms`, limbs, row_stride, limb_count, flags.
#[rustfmt::skip]
type SumKernel = Kernel<(
    LimbPtr, LimbPtr, LimbPtr, LimbPtr, LimbPtr, LimbPtr, LimbPtr, LimbPtr,
    SumTerms, LimbPtr, u64, u32, FlagPtr,
)>;
/// Parameters: flags, tiles, carries.
type CarriesKernel = Kernel<(FlagPtr, u32, LimbPtr)>;

/// The most terms of a sum.
pub(super) const SUM_TERMS_MAX: usize = 8;

/// The struct of `kernels/integers/sums.cuh`: magnitudes, lengths, the number of terms, and a bit
/// for each negative factor.
pub(super) type SumTerms = [u32; 2 * SUM_TERMS_MAX + 2];

/// Threads of a block of `integers_limbs`, and those of them that only find a carry: see
/// `kernels/integers/tile.cuh`.
const LIMB_THREADS: u32 = 512;
const GHOSTS: u32 = 8;
const SCAN_THREADS: u32 = 1024;
const FEW_SCAN_THREADS: u32 = 32;
const ADD_THREADS: u32 = 256;

/// Limbs of a tile.
pub(super) const TILE_LIMBS: u32 = 4 * (LIMB_THREADS - GHOSTS);
/// Tiles whose carries are a word, and which a block of `integers_add_carries` adds.
pub(super) const WORD_TILES: u32 = 32;
/// The most tiles of a row that a warp scans at once.
pub(super) const FEW_TILES_MAX: u32 = WORD_TILES * FEW_SCAN_THREADS;

/// The kernels of one device.
pub struct LimbKernels {
    /// For products of one part.
    pub(super) whole: LimbsKernel,
    /// For products of three parts.
    pub(super) thirds: LimbsKernel,
    pub(super) sum: SumKernel,
    pub(super) carries: CarriesKernel,
    /// The same kernel in blocks of one warp, for rows of few tiles.
    pub(super) carries_of_few: CarriesKernel,
    /// Parameters: carries, tiles_of_part, length, parts, limbs, row_stride, limb_count.
    pub(super) add_carries: Kernel<(LimbPtr, u32, u32, u32, LimbPtr, u64, u32)>,
}

impl LimbKernels {
    pub fn load(gpu: &Gpu) -> Result<Self, GpuUnavailable> {
        let module = KernelModule::load(gpu.context(), "integers/limbs")?;
        let limbs = |name| -> Result<LimbsKernel, DeviceFault> {
            Ok(module.kernel(name, BlockShape::threads(LIMB_THREADS))?.with_pdl())
        };
        let load = || {
            let threads = BlockShape::threads;
            let carries = |block_threads| -> Result<CarriesKernel, DeviceFault> {
                Ok(module.kernel("integers_carries", threads(block_threads))?.with_pdl())
            };
            Ok(Self {
                whole: limbs("integers_limbs_1")?,
                thirds: limbs("integers_limbs_3")?,
                sum: module.kernel("integers_sum", threads(LIMB_THREADS))?.with_pdl(),
                carries: carries(SCAN_THREADS)?,
                carries_of_few: carries(FEW_SCAN_THREADS)?,
                add_carries: module
                    .kernel("integers_add_carries", threads(ADD_THREADS))?
                    .with_pdl(),
            })
        };
        load().map_err(|fault| GpuUnavailable::Device { index: gpu.identity().index, fault })
    }
}
