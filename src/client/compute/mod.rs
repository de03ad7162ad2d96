//! Calls that compute, apart from programs.

pub mod gf2;
pub mod integers;
pub mod msm;
pub mod ntt;
pub mod poly_mul;
