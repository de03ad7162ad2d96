//! The kernels against arkworks, operation by operation: on a GPU if the machine has one, else on
//! the emulated driver under three thread schedules.

mod elements;
#[path = "../common/emulated.rs"]
mod emulated;
mod gf2;
mod gpu;
mod integer_sums;
mod integers;
mod ntt31;
mod products31;

mod block;
mod carries;
mod constants;
mod curve;
mod field;
