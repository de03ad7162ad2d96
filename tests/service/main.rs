//! The whole service, driven by hand-written messages: draining, the Unix socket, restarts,
//! interrupted and striped uploads, every encoding of an MSM, reflection and `Debug` output.
#![cfg(all(feature = "client", feature = "server"))]

#[path = "../rig/mod.rs"]
mod daemon;
mod describe;
mod drain;
mod encodings;
mod follow;
mod persist;
mod sent;
mod unix;
mod uploads;
