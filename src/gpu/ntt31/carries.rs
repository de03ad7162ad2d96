//! Carries between the tiles of integers: `kernels/integers`.

use super::limb_kernels::{FEW_TILES_MAX, LimbKernels, TILE_LIMBS, WORD_TILES};
use crate::{
    device::{DeviceFault, DeviceLease, DeviceSlice, Stream},
    ntt::StridedRows,
};

/// Limbs that a thread computes.
pub(super) const QUAD: u64 = 4;

/// Integers to be computed: rows of limbs of 32 bits, the lowest first. Memory starts at a multiple
/// of 16 bytes, and the stride is a multiple of 4 limbs.
#[derive(Clone, Copy)]
pub struct LimbRows<'a> {
    pub limbs: StridedRows<'a, u32>,
    pub rows: u32,
    /// Limbs of a row.
    pub length: u32,
}

/// Tiles of integers, which are counted through all parts of a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct CarryTiles {
    pub rows: u32,
    pub parts: u32,
    /// Limbs of a part: a multiple of 4.
    pub length: u32,
    pub of_part: u32,
}

/// Working memory for carries.
pub struct CarryScratch {
    flags: DeviceLease,
    carries: DeviceLease,
}

impl LimbRows<'_> {
    pub(super) fn is_possible(&self) -> bool {
        let Self { limbs, rows, length } = self;
        limbs.holds(*rows as usize, *length as usize)
            && (limbs.stride as u64).is_multiple_of(QUAD)
            && *length <= u32::MAX - QUAD as u32
    }
}

impl CarryTiles {
    /// The tiles of parts of `length` limbs, of which the first `limb_count` limbs are wanted.
    pub fn new(rows: u32, parts: u32, length: u32, limb_count: u32) -> Self {
        let covered = if parts == 1 { limb_count.min(length) } else { length };
        Self { rows, parts, length, of_part: covered.div_ceil(TILE_LIMBS) }
    }

    fn of_row(self) -> u32 {
        self.parts * self.of_part
    }

    /// Blocks that compute the limbs. `None` for too many.
    pub fn blocks(self) -> Option<u32> {
        self.of_part.checked_mul(self.rows)
    }

    fn flags(self) -> u64 {
        u64::from(self.rows) * u64::from(self.of_row())
    }

    fn words(self) -> u64 {
        u64::from(self.rows) * u64::from(self.of_row().div_ceil(WORD_TILES))
    }

    /// Adds the carries into all tiles to their limbs.
    pub fn launch_carries(
        self,
        kernels: &LimbKernels,
        stream: &Stream,
        scratch: &CarryScratch,
        out: LimbRows<'_>,
    ) -> Result<(), DeviceFault> {
        let Self { rows, parts, length, of_part } = self;
        let flags = scratch.flags.all::<u8>();
        let carries = scratch.carries.all::<u32>();
        let tiles = self.of_row();
        let are_few = tiles <= FEW_TILES_MAX;
        let scan = if are_few { &kernels.carries_of_few } else { &kernels.carries };
        scan.launch(stream, rows, (flags, tiles, carries))?;
        let (limbs, row_stride) = (out.limbs.vector, out.limbs.stride as u64);
        let given = (carries, of_part, length, parts, limbs, row_stride, out.length);
        let words = u32::try_from(self.words()).map_err(|_| fault("too many tiles"))?;
        kernels.add_carries.launch(stream, words, given)
    }
}

impl CarryScratch {
    /// Memory that `lease` returns, given its bytes.
    ///
    /// Errors: those of `lease`.
    pub(super) fn new(
        tiles: CarryTiles,
        lease: impl Fn(u64) -> Result<DeviceLease, DeviceFault>,
    ) -> Result<Self, DeviceFault> {
        let flags = lease(tiles.flags().max(QUAD))?;
        Ok(Self { flags, carries: lease(4 * tiles.words().max(1))? })
    }

    /// The memory for the flags of the tiles.
    ///
    /// Errors: `KernelMismatch` if the memory is that of fewer tiles.
    pub(super) fn flags(&self, tiles: CarryTiles) -> Result<DeviceSlice<'_, u8>, DeviceFault> {
        let flags = self.flags.all::<u8>();
        let carries = self.carries.all::<u32>();
        if (flags.len() as u64) < tiles.flags() || (carries.len() as u64) < tiles.words() {
            return Err(fault("working memory of another shape"));
        }
        Ok(flags)
    }
}

pub(super) fn fault(problem: &str) -> DeviceFault {
    DeviceFault::KernelMismatch { kernel: "integers".into(), problem: problem.into() }
}
