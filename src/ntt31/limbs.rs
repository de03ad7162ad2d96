//! Limbs of products of integers, from the residues of their coefficients modulo three primes:
//! `kernels/integers`.

use super::limb_kernels::{LimbKernels, TILE_LIMBS, WORD_TILES};
use crate::device::{DeviceArena, DeviceFault, DeviceLease, DeviceSlice, Stream};

/// The number of primes of residues.
const PRIME_COUNT: u64 = 3;
/// Limbs that a thread computes.
const QUAD: u64 = 4;

/// How residues of a product lie in device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResidueShape {
    /// The parts of the product: 1 has residues modulo x^u - 1 only, 3 also modulo x^(2u) + 1.
    pub parts: u32,
    /// Coefficients of a part, u: a multiple of 4, at least 4.
    pub length: u32,
    /// Words from a prime's residues to those of the next prime: a multiple of 4, at least the
    /// length of each.
    pub stride: u64,
}

/// Canonical residues of a product's coefficients, in natural order: for the primes 469762049,
/// 1811939329 and 2013265921. Memory starts at multiples of 16 bytes.
pub struct DeviceResidues<'a> {
    pub shape: ResidueShape,
    /// Modulo x^u - 1.
    pub cyclic: DeviceSlice<'a, u32>,
    /// Modulo x^(2u) + 1; `None` for one part.
    pub negacyclic: Option<DeviceSlice<'a, u32>>,
}

/// Working memory of a product.
pub struct CarryScratch {
    flags: DeviceLease,
    carries: DeviceLease,
}

impl ResidueShape {
    /// Coefficients of the product.
    pub fn coefficients(self) -> u64 {
        u64::from(self.parts) * u64::from(self.length)
    }

    /// Words of the residues modulo x^(2u) + 1 for one prime.
    fn negacyclic_length(self) -> u64 {
        u64::from(self.length) * u64::from(self.parts.saturating_sub(1))
    }

    /// Tiles of a part, for a product of `limb_count` limbs.
    fn tiles_of_part(self, limb_count: u64) -> u64 {
        let length = u64::from(self.length);
        let covered = if self.parts == 1 { limb_count.min(length) } else { length };
        covered.div_ceil(TILE_LIMBS.into())
    }

    fn is_possible(self) -> bool {
        let Self { parts, length, stride } = self;
        let longest = u64::from(length).max(self.negacyclic_length());
        matches!(parts, 1 | 3)
            && length > 0
            && u64::from(length).is_multiple_of(QUAD)
            && stride.is_multiple_of(QUAD)
            && stride >= longest
            && self.coefficients() <= u32::MAX.into()
    }
}

impl CarryScratch {
    /// Errors: the arena has too little memory.
    pub fn lease(
        arena: &DeviceArena,
        stream: &Stream,
        shape: ResidueShape,
    ) -> Result<Self, DeviceFault> {
        let tiles = u64::from(shape.parts) * shape.tiles_of_part(shape.coefficients());
        let words = tiles.div_ceil(WORD_TILES.into());
        let lease = |bytes: u64| arena.lease(stream, bytes.max(QUAD));
        Ok(Self { flags: lease(tiles)?, carries: lease(4 * words)? })
    }
}

impl DeviceResidues<'_> {
    /// Sets the limbs of the product, of which there are at most as many as coefficients; the
    /// others are dropped. A coefficient is a sum of at most 2^26 products of limbs, or 2^25 if the
    /// product has several parts. `scratch` is leased for the shape.
    ///
    /// Errors: `KernelMismatch` if memory does not match the shape; those of launches.
    pub fn launch_limbs(
        &self,
        kernels: &LimbKernels,
        stream: &Stream,
        scratch: &CarryScratch,
        limbs: DeviceSlice<'_, u32>,
    ) -> Result<(), DeviceFault> {
        let shape = self.shape;
        let count = limbs.len() as u64;
        if !self.matches() || count > shape.coefficients() {
            return Err(fault("memory does not match the product"));
        }
        if count == 0 {
            return Ok(());
        }
        let tiles_of_part = shape.tiles_of_part(count) as u32;
        let tiles = shape.parts * tiles_of_part;
        let words = tiles.div_ceil(WORD_TILES);
        let (flags, carries) = (scratch.flags.all::<u8>(), scratch.carries.all::<u32>());
        if flags.len() < tiles as usize || carries.len() < words as usize {
            return Err(fault("working memory of another shape"));
        }
        let ResidueShape { parts, length, stride } = shape;
        let limbs_kernel = if parts == 1 { &kernels.whole } else { &kernels.thirds };
        let count = count as u32;
        let given = (self.cyclic, self.negacyclic, stride, length, limbs, count, flags);
        limbs_kernel.launch(stream, tiles_of_part, given)?;
        kernels.carries.launch(stream, 1, (flags, tiles, carries))?;
        let given = (carries, tiles_of_part, length, limbs, count);
        kernels.add_carries.launch(stream, words, given)
    }

    fn matches(&self) -> bool {
        let shape = self.shape;
        let has = |words: &DeviceSlice<'_, u32>, length: u64| {
            words.len() as u64 >= (PRIME_COUNT - 1) * shape.stride + length
        };
        let has_negacyclic = match &self.negacyclic {
            Some(words) => has(words, shape.negacyclic_length()),
            None => shape.parts == 1,
        };
        shape.is_possible() && has(&self.cyclic, shape.length.into()) && has_negacyclic
    }
}

fn fault(problem: &str) -> DeviceFault {
    DeviceFault::KernelMismatch { kernel: "integers".into(), problem: problem.into() }
}
