//! Tests of the emulated driver: it runs correct programs right and detects wrong ones.
#![allow(unsafe_code)]

#[path = "../common/emulated.rs"]
mod emulated;
#[path = "../rig/presets.rs"]
mod limits;
mod rig;
#[path = "../common/sanitized.rs"]
mod sanitized;
#[path = "../common/sweep.rs"]
mod sweep;

mod devices;
mod faults;
mod graphs;
mod launches;
mod memory;
mod presets;
mod sanitizers;
mod streams;
