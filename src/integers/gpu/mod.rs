//! Limbs of products on a GPU, from the residues that transforms have left in device memory: on a
//! stream, without waiting for the device. `kernels/integers` documents the algorithm.

mod kernels;
mod limbs;

pub use kernels::LimbKernels;
pub use limbs::{CarryScratch, DeviceResidues, ResidueShape};
