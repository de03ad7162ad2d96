//! Number-theoretic transforms (NTTs) over Fr on a GPU, of data in device memory.
//!
//! [`NttDevice`] holds the kernels of one device and its twiddle tables. A [`NttTransform`]
//! specifies a computation; [`NttDevice::plan`] turns it into a [`NttPassPlan`] with the tables it
//! needs, which any number of jobs may run at a time, each on its own stream. `kernels/ntt`
//! documents the algorithm. [`VectorKernels`] has the vector operations that provers need between
//! transforms, and the evaluation of polynomials at a point.

mod kernels;
mod lru;
mod passes;
mod plan;
mod pointwise;
mod table_budget;
mod tables;
mod twiddles;
mod verify;

use crate::{curve::Fr, device::DevicePtr};

pub use passes::{Decimation, LG_N_MAX, NttLimits, NttPass, fuse_twiddles, split_into_passes};
pub use plan::{NttDevice, NttPassPlan, kernel_names};
pub use pointwise::{DeviceVector, VanishingPolynomial, VectorKernels};
pub use table_budget::{choose_passes, table_bytes_max};
pub use verify::{EvaluationTables, TransformEnd};

/// Elements in device memory, as kernels take them.
type ElementPtr = DevicePtr<DeviceFr>;

/// An element in device memory: the limbs of its Montgomery form, as in `curve::layout`.
pub type DeviceFr = [u64; 4];

/// The parameters of a transform, shared by all rows of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NttTransform {
    /// log2 of a row's length, at most [`LG_N_MAX`].
    pub lg_n: u32,
    /// Whether evaluations become coefficients, including the factor 1/n.
    pub inverse: bool,
    /// The coset's generator, not zero; `None` for the subgroup itself.
    pub coset: Option<Fr>,
    /// Whether the input is in bit-reversed order.
    pub input_reversed: bool,
    /// Whether the output is in bit-reversed order.
    pub output_reversed: bool,
}

impl NttTransform {
    /// The decimation that reads the input's order without a bit reversal.
    pub const fn decimation(&self) -> Decimation {
        if self.input_reversed { Decimation::Dit } else { Decimation::Dif }
    }

    /// Whether the last pass does a bit reversal.
    pub const fn needs_bit_reversal(&self) -> bool {
        self.input_reversed == self.output_reversed
    }
}
