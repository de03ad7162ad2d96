//! Computation on NVIDIA GPUs, in their memory: the device layer, MSMs, NTTs and products over Fr
//! and over 31-bit primes, and elimination over GF(2). The driver is loaded at run time.
//!
//! Use the package `capstan`: this one belongs to it, and may change with each release.
#![deny(unsafe_code, clippy::unwrap_used)]

pub mod device;
pub mod gf2_elimination;
pub mod msm;
pub mod ntt;
pub mod ntt31;

use capstan_math::{curve, error, field, gf2};
use capstan_region as region;
