//! How steps are computed: for each kind of `capstan_math::operation`, in its folder, one way per
//! executor. `ARCHITECTURE.md` lists what a new kind needs.

mod concat {
    mod cpu;
    mod gpu;
}
mod constant {
    mod cpu;
    mod gpu;
}
mod divide_by_linear {
    mod cpu;
    mod gpu;
}
mod divide_by_vanishing {
    mod cpu;
    mod gpu;
}
mod evaluate {
    mod cpu;
    mod gpu;
}
mod gf2_echelon {
    mod cpu;
    mod gpu;
}
mod gf2_reduce {
    mod cpu;
    mod gpu;
}
pub mod gpu;
pub mod host;
mod input {
    mod cpu;
    mod gpu;
}
mod int_mul {
    mod cpu;
    mod gpu;
}
mod int_sum {
    mod cpu;
    mod gpu;
}
mod linear_combination {
    mod cpu;
    mod gpu;
}
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
mod pad {
    mod cpu;
    mod gpu;
}
mod pointwise {
    mod cpu;
    mod gpu;
}
mod poly_mul {
    mod cpu;
    mod fold;
    mod gpu;
    mod short;
}
mod powers {
    mod cpu;
    mod gpu;
}
mod reshape {
    mod cpu;
    mod gpu;
}
mod single;
mod slice {
    mod cpu;
    mod gpu;
}
mod sparse_product {
    mod cpu;
    mod gpu;
}

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
