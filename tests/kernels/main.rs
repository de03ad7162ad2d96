//! The kernels against arkworks, operation by operation: on a GPU if the machine has one, else on
//! the emulated driver under three thread schedules.

#[path = "../common/emulated.rs"]
mod emulated;
mod gpu;
mod values;

mod block;
mod constants;
mod curve;
mod field;
mod words;
