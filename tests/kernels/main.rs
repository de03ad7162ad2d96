//! The kernels against arkworks, operation by operation: on the GPU where there is one, else on the
//! emulated driver under three orders of its threads.

#[path = "../common/emulated.rs"]
mod emulated;
mod gpu;
mod values;

mod block;
mod constants;
mod curve;
mod field;
mod words;
