//! Programs over values: every kind of step against arkworks, refusals with their messages, whole
//! programs of provers, memory, and checks of results.
#![cfg(feature = "server")]

#[path = "../common/arkworks31.rs"]
mod arkworks31;
mod calls;
mod checks;
mod documented_fields;
#[path = "../common/emulated.rs"]
mod emulated;
#[path = "../rig/faulty_engine.rs"]
#[allow(dead_code)] // not every mode is used here
mod faulty_engine;
mod gf2;
mod gpu;
mod integer_sums;
mod integers;
mod liveness;
mod model;
mod moves_to_host;
mod msm;
mod poly_mul;
mod prime31;
mod provers;
mod refusals;
#[path = "../common/repeat.rs"]
mod repeat;
mod rig;
mod row_by_row;
#[path = "../common/run_program.rs"]
mod run_program;
mod short_memory;
mod sparse;
#[path = "../common/sweep.rs"]
mod sweep;
mod sweeps;
#[path = "../common/vec_sink.rs"]
mod vec_sink;
mod vectors;
mod yielding;
