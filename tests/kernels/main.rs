//! The kernels against arkworks, operation by operation: on a GPU if the machine has one, else on
//! the emulated driver under a seed that permutes threads.

mod elements;
#[path = "../common/emulated.rs"]
mod emulated;
mod gf2;
mod gpu;
mod integer_sums;
mod integers;
mod ntt31;
mod products31;
#[path = "../common/repeat.rs"]
mod repeat;
#[path = "../common/sanitized.rs"]
mod sanitized;
#[path = "../common/sweep.rs"]
mod sweep;

mod block;
mod carries;
mod constants;
mod curve;
mod field;
mod sweeps;
