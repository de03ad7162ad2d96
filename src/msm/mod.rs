//! Multi-scalar multiplication on a GPU: the stages, each a module of kernels and what launches it.

pub mod reduce;
pub mod tables;
