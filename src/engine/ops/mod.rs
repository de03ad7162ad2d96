//! How steps are computed: for each kind of `capstan_math::operation`, in its file or folder, one
//! way per executor. `ARCHITECTURE.md` lists what a new kind needs.

mod concat;
mod constant;
mod divide_by_linear;
mod divide_by_vanishing;
mod evaluate;
mod gf2_echelon;
mod gf2_reduce;
pub mod gpu;
pub mod host;
mod input;
mod int_mul;
mod int_sum;
mod linear_combination;
mod msm {
    mod cpu;
    mod gpu;
    mod pieces;
    mod sums;
}
mod ntt {
    mod cpu;
    mod gpu;
    mod pieces;
}
mod pad;
mod pointwise;
mod poly_mul {
    mod cpu;
    mod fold;
    mod gpu;
    mod short;
}
mod powers;
mod prefix_product;
mod reshape;
mod single;
mod slice;
mod sparse_product;

pub use capstan_math::operation::*;
pub use single::{SINGLE_STEP, single_msm, single_ntt};

/// Finds how a step of each kind is computed.
macro_rules! executors {
    ($($variant:ident $name:ident $step:ident,)+) => {
        /// How the host computes the step.
        pub fn on_host(step: &Operation) -> &dyn host::HostStep {
            match step { $(Operation::$variant(step) => step),+ }
        }

        /// How a GPU computes the step.
        pub fn on_gpu(step: &Operation) -> &dyn gpu::GpuStep {
            match step { $(Operation::$variant(step) => step),+ }
        }
    };
}

capstan_math::operation::with_operations!(executors);
