//! The device layer, the engine with GPUs and the daemon: on a GPU if the machine has one, else on
//! the emulated driver.
#![cfg(all(feature = "cuda", feature = "server"))]

mod arena;
mod arriving;
mod cases;
#[cfg(feature = "cli")]
#[path = "../../examples/common/mod.rs"]
mod common;
mod daemon;
#[path = "../common/emulated.rs"]
mod emulated;
mod faults;
mod kernels;
#[path = "../rig/presets.rs"]
mod limits;
mod msm;
mod msm_faults;
mod ntt_faults;
mod pinned;
mod points;
mod rig;
mod ring;
#[cfg(feature = "cli")]
mod seen;
mod self_test;
mod served;
mod transforms;
mod unusable;
