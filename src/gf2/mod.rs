//! Elimination over GF(2): on the host, which is `capstan-math`'s, and on GPUs.

pub use capstan_gpu::gf2_elimination as gpu;
pub use capstan_math::gf2::*;
