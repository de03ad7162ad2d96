//! The stages of an MSM on the GPU against arkworks: on the GPU where there is one, else on the
//! emulated driver under three orders of its threads.

#[path = "../common/emulated.rs"]
mod emulated;
#[path = "../kernels/gpu.rs"]
#[allow(dead_code)] // shared with the tests of single kernels
mod gpu;
mod points;
#[path = "../kernels/values.rs"]
#[allow(dead_code)]
mod values;

mod reduce;
mod tables;
