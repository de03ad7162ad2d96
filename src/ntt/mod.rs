//! Number-theoretic transforms (NTTs) over Fr on a GPU, of data in device memory.
//!
//! [`NttDevice`] holds the kernels of one device and its twiddle tables. A [`NttTransform`]
//! specifies a computation; [`NttDevice::plan`] turns it into a [`NttPassPlan`] with the tables it
//! needs, which any number of jobs may run at a time, each on its own stream. `kernels/ntt`
//! documents the algorithm.

mod kernels;
mod lru;
mod passes;
mod plan;
// No engine uses vector operations yet; tests and benchmarks do.
#[cfg(feature = "internals")]
mod pointwise;
mod table_budget;
mod tables;
mod transform;
mod twiddles;
mod verify;

pub use passes::NttLimits;
pub use plan::{NttDevice, NttPassPlan, kernel_names};
pub use table_budget::{choose_passes, table_bytes_max};
pub use transform::{DeviceFr, LG_N_MAX, NttTransform};
pub use verify::{EvaluationTables, TransformEnd};
#[cfg(feature = "internals")]
pub use {
    passes::{NttPass, fuse_twiddles, split_into_passes},
    pointwise::{DeviceVector, VanishingPolynomial, VectorKernels},
    transform::Decimation,
};
