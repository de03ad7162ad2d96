//! Transforms on a GPU against arkworks: on a GPU if the machine has one, else on the emulated
//! driver under a seed that permutes threads.

#[path = "../common/emulated.rs"]
mod emulated;
#[path = "../kernels/gpu.rs"]
mod gpu;
#[path = "../rig/presets.rs"]
mod limits;
#[path = "../common/repeat.rs"]
mod repeat;
mod rig;
#[path = "../common/sweep.rs"]
mod sweep;

mod checks;
mod combination;
mod concurrent;
mod constants;
mod division;
mod errors;
mod planner;
mod pointwise;
mod sparse;
mod sweeps;
mod tables;
mod transforms;
