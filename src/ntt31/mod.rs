//! NTTs over fields of prime order below 2^31 on a GPU, of data in device memory. No step of
//! programs uses them yet.
//!
//! [`Ntt31Device`] holds the kernels of one device and its twiddle tables, for all primes.
//! [`Ntt31Device::plan`] turns an [`NttPlan`](crate::curve::NttPlan) into an [`Ntt31PassPlan`] with
//! the tables it needs, which any number of jobs may run at a time, each on its own stream.
//! `kernels/ntt31` documents the algorithm.

mod cuts;
mod elements;
mod kernels;
mod plan;
mod run;
mod scaling;
mod shapes;
mod tables;

pub use cuts::lg_radices;
pub use plan::{Ntt31Device, Ntt31PassPlan};
