//! Vector operations that provers need between transforms: element-wise arithmetic, in place or
//! not, and polynomials at a point. All run on a stream and never wait for the device.

mod evaluate;
mod vectors;

use super::transform::{DeviceFr, ElementPtr};
use crate::{
    curve::Fr,
    device::{DeviceFault, DeviceSlice},
};

pub use vectors::{VanishingPolynomial, VectorKernels};

/// A vector in device memory: canonical elements in Montgomery form.
pub type DeviceVector<'a> = DeviceSlice<'a, DeviceFr>;

/// Threads, and elements, per block: 2^24 elements reach 4.1 to 4.3 TB/s of an H200's 4.8. Other
/// sizes were not measured.
const THREADS: u32 = 128;

fn grid(blocks: u64) -> Result<u32, DeviceFault> {
    u32::try_from(blocks).map_err(|_| kernel_fault("too many elements"))
}

fn kernel_fault(problem: &str) -> DeviceFault {
    DeviceFault::KernelMismatch { kernel: "fr_pointwise".into(), problem: problem.into() }
}

fn montgomery(factor: Fr) -> [u64; 4] {
    factor.0.0
}
