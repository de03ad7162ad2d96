//! The emulated driver: what it runs must be right, and what is wrong must show.
#![allow(unsafe_code)]

#[path = "../common/emulated.rs"]
mod emulated;
mod rig;

mod threads;
