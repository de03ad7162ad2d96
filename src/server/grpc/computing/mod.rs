//! The Compute service: MSMs, NTTs, programs and estimates.

pub mod compute;
pub mod estimate;
pub mod found_call;
pub mod program_limits;
pub mod run;
pub mod run_outputs;
pub mod single_step;
