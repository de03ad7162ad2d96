//! Vector operations that provers need between transforms: element-wise arithmetic, in place or
//! not, polynomials at a point and their quotients by X - z, and products with sparse matrices. All
//! run on a stream and never wait for the device.

mod combination;
mod evaluate;
mod fused;
mod scans;
mod sparse;
mod sparse_tasks;
mod vectors;

use ark_ff::{AdditiveGroup, Field, PrimeField};

use super::elements::{DeviceFr, ELEMENT_BYTES, ElementPtr};
use crate::{
    curve::Fr,
    device::{DeviceFault, DeviceSlice},
};

pub use combination::LinearTerm;
pub use fused::StridedRows;
pub use sparse::DeviceMatrix;
pub use sparse_tasks::{RowTask, SparseTaskBuilder, SparseTasks};
pub use vectors::{VanishingPolynomial, VectorKernels};

/// A vector in device memory: canonical elements in Montgomery form.
pub type DeviceVector<'a> = DeviceSlice<'a, DeviceFr>;

/// Threads, and elements, per block: 85 to 90 % of an H200's memory rate
/// (`benches/experiments/vectors.md`).
const THREADS: u32 = 128;

fn grid(blocks: u64) -> Result<u32, DeviceFault> {
    u32::try_from(blocks).map_err(|_| kernel_fault("too many elements"))
}

/// The number of blocks with one element per thread.
fn element_grid(count: u64) -> Result<u32, DeviceFault> {
    grid(count.div_ceil(THREADS.into()))
}

/// The length of all vectors, of which each is `out` or does not overlap it.
fn common_length(out: DeviceVector<'_>, inputs: &[DeviceVector<'_>]) -> Result<u64, DeviceFault> {
    let count = out.len() as u64;
    for input in inputs {
        if input.len() != out.len() {
            return Err(kernel_fault("vectors have different lengths"));
        }
        let distance = input.arena_offset().abs_diff(out.arena_offset());
        if distance != 0 && distance < count * ELEMENT_BYTES {
            return Err(kernel_fault("vectors overlap in part"));
        }
    }
    Ok(count)
}

/// The number of coefficients in each of `rows` rows.
fn row_length(coefficients: DeviceVector<'_>, rows: usize) -> Result<usize, DeviceFault> {
    let length = coefficients.len().checked_div(rows).unwrap_or(0);
    match rows * length == coefficients.len() {
        true => Ok(length),
        false => Err(kernel_fault("coefficients are not whole rows")),
    }
}

fn overlap(a: &DeviceVector<'_>, b: &DeviceVector<'_>) -> bool {
    let end = |v: &DeviceVector<'_>| v.arena_offset() + v.len() as u64 * ELEMENT_BYTES;
    a.arena_offset() < end(b) && b.arena_offset() < end(a)
}

fn kernel_fault(problem: &str) -> DeviceFault {
    DeviceFault::KernelMismatch { kernel: "fr_pointwise".into(), problem: problem.into() }
}

fn montgomery(factor: Fr) -> DeviceFr {
    factor.0.0
}

/// The precomputed multiples factor 2^(32 (5 + 4 k)), k = 0, 1: see `kernels/field/fr.cuh`.
fn shoup_multiples(factor: Fr) -> [DeviceFr; 2] {
    [5, 9].map(|limbs| (factor * Fr::ONE.double().pow([32 * limbs])).into_bigint().0)
}
