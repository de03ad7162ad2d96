//! The whole service, driven by hand-written messages: draining, the Unix sockets, restarts,
//! interrupted and striped uploads, every encoding of an MSM, matrices, programs, regions,
//! reflection and `Debug` output.

mod admin_socket;
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
mod stored_programs;
mod streamed_rows;
mod unix;
mod uploads;

use crate::{rig as daemon, sparse_inputs};
