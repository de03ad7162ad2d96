//! The stages of an MSM against arkworks: on the GPU where there is one, else on the emulated
//! driver under three orders of its threads.

#[path = "../common/emulated.rs"]
mod emulated;
#[path = "../kernels/gpu.rs"]
mod gpu;
mod points;

mod accumulate;
