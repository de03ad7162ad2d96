//! The whole service, driven by hand-written messages: draining, the Unix sockets, restarts,
//! interrupted and striped uploads, every encoding of an MSM, matrices, programs, regions,
//! reflection and `Debug` output.
#![cfg(all(feature = "client", feature = "server"))]

mod admin_socket;
#[path = "../rig/mod.rs"]
mod daemon;
mod documented_calls;
mod drain;
mod encodings;
mod kept_vectors;
mod loading;
mod matrices;
mod persist;
mod program_checks;
mod program_inputs;
mod program_steps;
mod program_time;
mod reflection;
mod region_uploads;
mod regions;
#[path = "../common/sparse_inputs.rs"]
mod sparse_inputs;
mod stored_programs;
mod streamed_rows;
mod unix;
mod uploads;
