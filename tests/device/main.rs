//! The device layer on a GPU where there is one, else on the emulated driver; and the daemon on it.
#![cfg(all(feature = "cuda", feature = "server"))]

mod arena;
mod arriving;
mod cases;
#[cfg(feature = "cli")]
#[path = "../../examples/common/mod.rs"]
mod common;
mod daemon;
mod disturbed;
#[path = "../common/emulated.rs"]
mod emulated;
mod faults;
mod kernels;
mod left_out;
#[path = "../rig/presets.rs"]
mod limits;
mod msm;
mod pinned;
mod points;
mod refused;
mod rig;
mod ring;
#[cfg(feature = "cli")]
mod seen;
mod self_test;
mod served;
mod transforms;
