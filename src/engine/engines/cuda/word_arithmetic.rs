//! What a GPU has for vectors of words.

use crate::{
    device::{Gpu, GpuUnavailable},
    ntt::table_bytes_max,
    ntt31::{LimbKernels, Ntt31Device, VectorKernels31},
};

/// Tables of transforms take at most this fraction of those for transforms over Fr, 1/8: an element
/// has an eighth of the bytes.
const TABLES_PART: u64 = 8;

/// The kernels and tables for vectors over 31-bit primes, and of integers.
pub struct WordArithmetic {
    pub(super) transforms: Ntt31Device,
    pub(super) vectors: VectorKernels31,
    pub(super) limbs: LimbKernels,
}

impl WordArithmetic {
    pub fn load(gpu: &Gpu) -> Result<Self, GpuUnavailable> {
        let table_bytes_max = table_bytes_max(gpu.arena().bytes()) / TABLES_PART;
        let transforms = Ntt31Device::load(gpu, table_bytes_max)?;
        Ok(Self {
            transforms,
            vectors: VectorKernels31::load(gpu)?,
            limbs: LimbKernels::load(gpu)?,
        })
    }
}
