//! Tests of the emulated driver: it runs correct programs right and detects wrong ones.
#![allow(unsafe_code)]

#[path = "../common/emulated.rs"]
mod emulated;
#[path = "../rig/presets.rs"]
mod limits;
mod rig;

mod devices;
mod faults;
mod graphs;
mod launches;
mod memory;
mod presets;
mod sanitizers;
mod streams;
