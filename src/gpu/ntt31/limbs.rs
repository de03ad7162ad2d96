//! Limbs of products of integers, from the residues of their coefficients modulo three primes:
//! `kernels/integers`.

use super::{
    carries::{CarryScratch, CarryTiles, LimbRows, QUAD, fault},
    limb_kernels::LimbKernels,
};
use crate::device::{DeviceFault, DeviceLease, DeviceSlice, Stream};

/// The number of primes of residues.
const PRIME_COUNT: u64 = 3;

/// How residues of products lie in device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResidueShape {
    pub rows: u32,
    /// The parts of a product: 1 has residues modulo x^u - 1 only, 3 also modulo x^(2u) + 1.
    pub parts: u32,
    /// Coefficients of a part, u: a multiple of 4, at least 4.
    pub length: u32,
    /// Words from a prime's residues to those of the next prime: a multiple of 4, at least the
    /// residues of all rows.
    pub stride: u64,
}

/// Canonical residues of the products' coefficients, in natural order: for the primes 469762049,
/// 1811939329 and 2013265921, row by row. Memory starts at multiples of 16 bytes.
pub struct DeviceResidues<'a> {
    pub shape: ResidueShape,
    /// Modulo x^u - 1.
    pub cyclic: DeviceSlice<'a, u32>,
    /// Modulo x^(2u) + 1; `None` for one part.
    pub negacyclic: Option<DeviceSlice<'a, u32>>,
}

impl ResidueShape {
    /// Coefficients of a product.
    pub fn coefficients(self) -> u64 {
        u64::from(self.parts) * u64::from(self.length)
    }

    /// Working memory for products of up to that many limbs, which `lease` returns, given its
    /// bytes.
    ///
    /// Errors: those of `lease`.
    pub fn carry_scratch(
        self,
        lease: impl Fn(u64) -> Result<DeviceLease, DeviceFault>,
    ) -> Result<CarryScratch, DeviceFault> {
        CarryScratch::new(self.tiles(u32::MAX), lease)
    }

    fn tiles(self, limb_count: u32) -> CarryTiles {
        CarryTiles::new(self.rows, self.parts, self.length, limb_count)
    }

    /// Words of the residues modulo x^u - 1 for one prime.
    fn cyclic_words(self) -> u64 {
        u64::from(self.rows) * u64::from(self.length)
    }

    /// Words of the residues modulo x^(2u) + 1 for one prime.
    fn negacyclic_words(self) -> u64 {
        self.cyclic_words() * u64::from(self.parts.saturating_sub(1))
    }

    fn is_possible(self) -> bool {
        let Self { rows, parts, length, stride } = self;
        matches!(parts, 1 | 3)
            && rows > 0
            && length > 0
            && u64::from(length).is_multiple_of(QUAD)
            && stride.is_multiple_of(QUAD)
            && stride >= self.cyclic_words().max(self.negacyclic_words())
            && self.coefficients() <= u32::MAX.into()
    }
}

impl DeviceResidues<'_> {
    /// Sets the limbs of the products, of which there are at most as many as coefficients; the
    /// others are dropped. A coefficient is a sum of at most 2^26 products of limbs, or 2^25 if the
    /// product has several parts. `scratch` is that of the shape.
    ///
    /// Errors: `KernelMismatch` if memory does not match the shape; those of launches.
    pub fn launch_limbs(
        &self,
        kernels: &LimbKernels,
        stream: &Stream,
        scratch: &CarryScratch,
        out: LimbRows<'_>,
    ) -> Result<(), DeviceFault> {
        let shape = self.shape;
        let length = out.length;
        let fits = u64::from(length) <= shape.coefficients() && out.rows == shape.rows;
        if !self.matches() || !fits || !out.is_possible() {
            return Err(fault("memory does not match the product"));
        }
        if length == 0 {
            return Ok(());
        }
        let tiles = shape.tiles(length);
        let blocks = tiles.blocks().ok_or_else(|| fault("too many tiles"))?;
        let kernel = if shape.parts == 1 { &kernels.whole } else { &kernels.thirds };
        let (limbs, row_stride) = (out.limbs.vector, out.limbs.stride as u64);
        let of_part = tiles.of_part;
        let flags = scratch.flags(tiles)?;
        let &Self { shape: ResidueShape { length: u, stride, .. }, cyclic, negacyclic } = self;
        let given = (cyclic, negacyclic, stride, u, limbs, row_stride, length, flags, of_part);
        kernel.launch(stream, blocks, given)?;
        tiles.launch_carries(kernels, stream, scratch, out)
    }

    fn matches(&self) -> bool {
        let shape = self.shape;
        let has = |words: &DeviceSlice<'_, u32>, length: u64| {
            words.len() as u64 >= (PRIME_COUNT - 1) * shape.stride + length
        };
        let has_negacyclic = match &self.negacyclic {
            Some(words) => has(words, shape.negacyclic_words()),
            None => shape.parts == 1,
        };
        shape.is_possible() && has(&self.cyclic, shape.cyclic_words()) && has_negacyclic
    }
}
