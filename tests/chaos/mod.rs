//! The real daemon while the system around it fails: a full or broken disk, too few descriptors,
//! too little memory, jumps of the clock, a kill at any time, hostile connections. What it promises
//! holds: calls that are not affected are answered, the others get a clear reason, and nothing is
//! left behind.
//!
//! Other suites have the rest: `tests/device/workers.rs` kills workers, `tests/hostile` has slow
//! readers and senders, and `tests/load_faults` runs many clients while workers and clients are
//! lost.

mod clock;
mod connections;
mod control_group;
mod daemon;
mod descriptors;
mod disk;
mod faults;
mod killed;
mod memory;
mod paused;
mod peers;

use crate::{daemon_process, sweep, tls_files};
