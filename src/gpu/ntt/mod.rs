//! Number-theoretic transforms (NTTs) over Fr on a GPU, of data in device memory.
//!
//! [`NttDevice`] holds the kernels of one device and its twiddle tables. A
//! [`NttPlan`](crate::curve::NttPlan) specifies a computation; [`NttDevice::plan`] turns it into an
//! [`NttPassPlan`] with the tables it needs, which any number of jobs may run at a time, each on
//! its own stream. `kernels/ntt` documents the algorithm.

mod duration;
mod elements;
mod kernels;
mod lru;
mod passes;
mod plan;
mod pointwise;
mod table_budget;
mod tables;
mod twiddles;
mod verify;

pub use duration::{transform_time, vector_time};
pub use elements::{DeviceFr, LG_N_MAX};
pub(crate) use lru::LruCache;
pub use passes::{NttLimits, NttPass, fuse_twiddles, split_into_passes};
pub use plan::{NttDevice, NttPassPlan, kernel_names};
pub use pointwise::{
    DeviceMatrix, DeviceVector, LinearTerm, RowTask, SparseTaskBuilder, SparseTasks, StridedRows,
    VanishingPolynomial, VectorKernels,
};
pub use table_budget::{choose_passes, table_bytes_max};
pub use verify::{EvaluationTables, TransformEnd};
