//! Transforms on a GPU against arkworks: on a GPU if the machine has one, else on the emulated
//! driver under three thread schedules.

#[path = "../common/emulated.rs"]
mod emulated;
#[path = "../kernels/gpu.rs"]
mod gpu;
#[path = "../rig/presets.rs"]
mod limits;
mod rig;

mod checks;
mod combination;
mod concurrent;
mod constants;
mod division;
mod errors;
mod planner;
mod pointwise;
mod sparse;
mod tables;
mod transforms;
