//! Transforms on a GPU against arkworks: on a GPU if the machine has one, else on the emulated
//! driver under three thread schedules.

#[path = "../common/emulated.rs"]
mod emulated;
#[path = "../kernels/gpu.rs"]
mod gpu;
mod rig;

mod checks;
mod concurrent;
mod constants;
mod planner;
mod pointwise;
mod refused;
mod tables;
mod transforms;
