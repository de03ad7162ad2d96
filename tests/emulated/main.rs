//! The emulated driver: what it runs must be right, and what is wrong must show.
#![allow(unsafe_code)]

#[path = "../common/emulated.rs"]
mod emulated;
#[path = "../rig/presets.rs"]
mod limits;
mod rig;

mod devices;
mod faults;
mod graphs;
mod memory;
mod presets;
mod sanitizers;
mod streams;
mod threads;
