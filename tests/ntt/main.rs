//! Transforms on a GPU against arkworks: on the GPU where there is one, else on the emulated driver
//! under three orders of its threads.

#[path = "../common/emulated.rs"]
mod emulated;
#[path = "../kernels/gpu.rs"]
mod gpu;
#[path = "../rig/presets.rs"]
mod limits;
mod rig;

mod concurrent;
mod constants;
mod evaluate;
mod orders;
mod planner;
mod pointwise;
mod refused;
mod tables;
