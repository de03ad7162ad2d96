//! Products and sums of integers. A vector's row is one integer: limbs of 32 bits, the lowest
//! first.
//!
//! Factors are polynomials in x = 2^32. Transforms modulo three primes compute the coefficients of
//! their product, whose residues determine them. A library multiplies short factors.

#[cfg(feature = "server")]
mod factors;
#[cfg(feature = "server")]
mod garner;
#[cfg(feature = "server")]
mod library;
#[cfg(feature = "server")]
mod limbs;
#[cfg(feature = "server")]
mod product;
#[cfg(feature = "server")]
mod sizes;
#[cfg(feature = "server")]
mod sum;
#[cfg(feature = "server")]
mod transforms;

// Tests multiply by transforms of all sizes.
#[cfg(all(feature = "server", feature = "internals"))]
pub use self::product::by_transforms;
#[cfg(feature = "server")]
pub use self::{
    factors::{FactorLimbs, IntegerFactors},
    product::{is_short, multiply, working_bytes},
    sizes::ProductSize,
    sum::{SumTerm, set_sum},
};

/// The most terms of a sum.
pub const SUM_TERMS_MAX: usize = 8;
/// The maximum sum of the factors' magnitudes: a column of limbs times factors and what is carried
/// into it are then below 2^64.
pub const MAGNITUDES_MAX: u64 = (1 << 32) - 1;

/// Limbs of the longest product: a coefficient of a longer one may be too large for the primes, and
/// they have no longer transforms.
pub const PRODUCT_LIMBS_MAX: u64 = 1 << 26;
