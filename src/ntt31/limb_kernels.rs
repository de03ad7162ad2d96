//! Loads the kernels of `kernels/integers`.

use crate::device::{
    BlockShape, DeviceFault, DevicePtr, Gpu, GpuUnavailable, Kernel, KernelModule,
};

type LimbPtr = DevicePtr<u32>;
type FlagPtr = DevicePtr<u8>;

/// Parameters: cyclic, negacyclic, stride, length, limbs, limb_count, flags.
type LimbsKernel = Kernel<(LimbPtr, Option<LimbPtr>, u64, u32, LimbPtr, u32, FlagPtr)>;

/// Threads of a block of `integers_limbs`, and those of them that only find a carry: see
/// `kernels/integers/tile.cuh`.
const LIMB_THREADS: u32 = 512;
const GHOSTS: u32 = 8;
const SCAN_THREADS: u32 = 1024;
const ADD_THREADS: u32 = 256;

/// Limbs of a tile.
pub(super) const TILE_LIMBS: u32 = 4 * (LIMB_THREADS - GHOSTS);
/// Tiles whose carries are a word, and which a block of `integers_add_carries` adds.
pub(super) const WORD_TILES: u32 = 32;

/// The kernels of one device.
pub struct LimbKernels {
    /// For products of one part.
    pub(super) whole: LimbsKernel,
    /// For products of three parts.
    pub(super) thirds: LimbsKernel,
    /// Parameters: flags, tiles, carries.
    pub(super) carries: Kernel<(FlagPtr, u32, LimbPtr)>,
    /// Parameters: carries, tiles of a part, length, limbs, limb_count.
    pub(super) add_carries: Kernel<(LimbPtr, u32, u32, LimbPtr, u32)>,
}

impl LimbKernels {
    pub fn load(gpu: &Gpu) -> Result<Self, GpuUnavailable> {
        let module = KernelModule::load(gpu.context(), "integers/limbs")?;
        let limbs = |name| -> Result<LimbsKernel, DeviceFault> {
            Ok(module.kernel(name, BlockShape::threads(LIMB_THREADS))?.with_pdl())
        };
        let load = || {
            let (scan, add) = (BlockShape::threads(SCAN_THREADS), BlockShape::threads(ADD_THREADS));
            Ok(Self {
                whole: limbs("integers_limbs_1")?,
                thirds: limbs("integers_limbs_3")?,
                carries: module.kernel("integers_carries", scan)?.with_pdl(),
                add_carries: module.kernel("integers_add_carries", add)?.with_pdl(),
            })
        };
        load().map_err(|fault| GpuUnavailable::Device { index: gpu.identity().index, fault })
    }
}
