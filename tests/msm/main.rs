//! The stages of an MSM on the GPU against arkworks: on the GPU where there is one, else on the
//! emulated driver under three orders of its threads.

#[path = "../common/emulated.rs"]
mod emulated;
#[path = "../kernels/gpu.rs"]
mod gpu;
mod points;
#[path = "../kernels/values.rs"]
#[allow(dead_code)] // the tests of the fields use the rest
mod values;

mod reduce;
mod tables;
