//! MSMs on a GPU and their stages against the host and arkworks: on a GPU if the machine has one,
//! else on the emulated driver under a seed that permutes threads.

mod digits;
#[path = "../kernels/elements.rs"]
#[allow(dead_code)]
mod elements;
#[path = "../common/emulated.rs"]
mod emulated;
#[path = "../kernels/gpu.rs"]
mod gpu;
#[path = "../rig/presets.rs"]
mod limits;
mod plans;
mod points;
#[path = "../common/repeat.rs"]
mod repeat;
mod scalars;
#[path = "../common/sweep.rs"]
mod sweep;

mod accumulate;
mod complete_msms;
mod passes;
mod reduce;
mod resident;
mod sort;
mod sweeps;
mod tables;
mod waves;
mod window_choice;
mod windows;
