//! The service as a whole, by hand-written messages: draining, the Unix socket, restarts, uploads
//! that break off or come over several connections, every way to write an MSM, and what is said of
//! it all.
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
