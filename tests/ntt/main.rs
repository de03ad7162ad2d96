//! Transforms on a GPU against arkworks: on a GPU if the machine has one, else on the emulated
//! driver under three thread schedules.

#[path = "../common/emulated.rs"]
mod emulated;
#[path = "../kernels/gpu.rs"]
mod gpu;
mod rig;

mod concurrent;
mod constants;
mod evaluate;
mod orders;
mod planner;
mod pointwise;
mod refused;
mod tables;
