//! Multi-scalar multiplication on a GPU, stage by stage: scalars become references sorted by bucket
//! ([`sort`]), as [`Windows`] cuts them.

pub mod sort;
mod windows;

pub use windows::{BITS_MAX, BITS_MIN, Windows};
