//! Elimination over GF(2): on the host, which is `capstan-math`'s, and on GPUs.

pub use capstan_math::gf2::*;

#[cfg(feature = "server")]
pub use capstan_gpu::gf2_elimination as gpu;
