//! Elimination over GF(2): on the host, which is `capstan-math`'s, and on GPUs.

pub use capstan_math::gf2::*;

#[cfg(feature = "cuda")]
pub mod gpu;
