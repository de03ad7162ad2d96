//! Products and sums of integers. A vector's row is one integer: limbs of 32 bits, the lowest
//! first.
//!
//! Factors are polynomials in x = 2^32. Transforms modulo three primes compute the coefficients of
//! their product, whose residues determine them. A library multiplies short factors.

mod factors;
mod garner;
mod library;
mod limbs;
mod product;
mod sizes;
mod sum;
mod transforms;

pub use self::{
    factors::{FactorLimbs, IntegerFactors},
    product::{by_transforms, is_short, multiply, working_bytes},
    sizes::ProductSize,
    sum::{SumTerm, set_sum},
};
