//! The whole service, driven by hand-written messages: draining, the Unix socket, restarts,
//! interrupted and striped uploads, every encoding of an MSM, reflection and `Debug` output.
#![cfg(all(feature = "client", feature = "server"))]

#[path = "../rig/mod.rs"]
mod daemon;
mod drain;
mod encodings;
mod persist;
mod reflection;
mod streamed_rows;
mod unix;
mod uploads;
