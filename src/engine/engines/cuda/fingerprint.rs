//! Fingerprints of memory, to compare copies on a device with the host's:
//! `kernels/check/fingerprint.cu`.

use rayon::prelude::*;

use crate::{
    device::{
        BlockShape, DeviceFault, DeviceLease, DevicePtr, DeviceSlice, Gpu, GpuUnavailable, Kernel,
        KernelModule, Stream,
    },
    error::{Error, Result},
};

/// Threads per block, `__launch_bounds__` of the kernel.
const THREADS: u32 = 256;

/// Bytes that one thread of the host reads at a time.
const HOST_PIECE: usize = 1 << 20;

/// 2^64 divided by the golden ratio, as in the kernel.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Computes fingerprints of a GPU's memory.
pub struct DeviceFingerprint {
    gpu: Gpu,
    /// words, sum, n.
    kernel: Kernel<(DevicePtr<u64>, DevicePtr<u64>, u64)>,
    blocks_max: u32,
}

impl DeviceFingerprint {
    /// Bytes of device memory for the result.
    pub const SUM_BYTES: u64 = size_of::<u64>() as u64;

    pub fn load(gpu: &Gpu) -> std::result::Result<Self, GpuUnavailable> {
        let failed = |fault| GpuUnavailable::Device { index: gpu.identity().index, fault };
        let module = KernelModule::load(gpu.context(), "check/fingerprint")?;
        let shape = BlockShape::threads(THREADS);
        let kernel: Kernel<_> = module.kernel("memory_fingerprint", shape).map_err(failed)?;
        let resident = kernel.resident_blocks().map_err(failed)?;
        let blocks_max = gpu.identity().limits.multiprocessors * resident;
        Ok(Self { gpu: gpu.clone(), kernel, blocks_max })
    }

    /// The fingerprint of `words`, after all earlier work on `stream`.
    ///
    /// Shape: `sum` has [`Self::SUM_BYTES`].
    pub fn of(
        &self,
        stream: &Stream,
        words: DeviceSlice<'_, u64>,
        sum: &DeviceLease,
    ) -> Result<u64> {
        let short = || Error::Internal("a fingerprint was cut off".into());
        let sum = sum.all::<u64>().slice(0, 1).ok_or_else(short)?;
        let blocks = (words.len() as u64).div_ceil(u64::from(THREADS)).max(1);
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX).min(self.blocks_max);
        self.kernel.launch(stream, blocks, (words, sum, words.len() as u64))?;
        let mut bytes = Vec::with_capacity(size_of::<u64>());
        self.gpu.ring().download(stream, sum.cast().ok_or_else(short)?, |piece| {
            bytes.extend_from_slice(piece);
            Ok::<_, DeviceFault>(())
        })?;
        bytes.try_into().map(u64::from_le_bytes).map_err(|_| short())
    }
}

/// The fingerprint of the host's bytes, a multiple of 8, on the current rayon pool.
pub fn of_host(bytes: &[u8]) -> u64 {
    let pieces = bytes.par_chunks(HOST_PIECE).enumerate().map(|(number, piece)| {
        let first = (number * HOST_PIECE / size_of::<u64>()) as u64 + 1;
        let (words, _) = piece.as_chunks();
        let words = words.iter().map(|word| u64::from_le_bytes(*word));
        let mixed = words.zip(first..).map(|(word, index)| mix(word ^ index.wrapping_mul(GOLDEN)));
        mixed.fold(0, u64::wrapping_add)
    });
    pieces.reduce(|| 0, u64::wrapping_add)
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood, 2014), a bijection.
fn mix(mut z: u64) -> u64 {
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_and_every_place_counts() {
        let bytes: Vec<u8> = (0..2 * HOST_PIECE + 96).map(|i| (i % 251) as u8).collect();
        let whole = of_host(&bytes);
        assert_ne!(of_host(&bytes[8..]), whole);
        // Two flips of the highest bit do not cancel out.
        let mut flipped = bytes.clone();
        for place in [7, HOST_PIECE + 15] {
            flipped[place] ^= 0x80;
            assert_ne!(of_host(&flipped), whole);
        }
        let mut swapped = bytes;
        swapped.swap(3, 11);
        assert_ne!(of_host(&swapped), whole);
        assert_eq!(of_host(&[]), 0);
        assert_ne!(of_host(&[0; 8]), of_host(&[0; 16]));
    }

    /// The first output of SplitMix64 from seed 0, which is published with the algorithm.
    #[test]
    fn a_zero_word_is_the_first_output_of_splitmix64() {
        assert_eq!(of_host(&[0; 8]), 0xe220_a839_7b1d_cdaf);
    }
}
