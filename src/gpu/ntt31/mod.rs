//! Vectors over fields of prime order below 2^31 in a GPU's memory: NTTs, products of polynomials,
//! and arithmetic.
//!
//! [`Ntt31Device`] holds the kernels of one device and its twiddle tables, for all primes.
//! [`Ntt31Device::plan`] turns an [`NttPlan`](crate::curve::NttPlan) into an [`Ntt31PassPlan`] with
//! the tables it needs, which any number of jobs may run at a time, each on its own stream.
//! `kernels/ntt31` documents the algorithm.

mod carries;
mod cuts;
mod duration;
mod elements;
mod evaluate;
mod kernels;
mod limb_kernels;
mod limb_sums;
mod limbs;
mod plan;
mod product;
mod run;
mod scaling;
mod shapes;
mod tables;
mod vectors;

pub use carries::LimbRows;
pub use cuts::Cut31;
pub use duration::transform31_time;
pub use evaluate::EvaluatedRows;
pub use kernels::WordVector;
pub use limb_kernels::LimbKernels;
pub use limb_sums::LimbTerm;
pub use limbs::{DeviceResidues, ResidueShape};
pub use plan::{Ntt31Device, Ntt31PassPlan};
pub use product::Product31Rows;
pub use run::ShortRows;
pub use vectors::{LinearTerm31, VectorKernels31, WordDecodeRule, WordOperation};
