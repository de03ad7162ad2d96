//! How results are checked, and checks that cost less than recomputing the result.
//!
//! A call asks for checks, not a step of a program: `verify` checks all steps that can be checked,
//! and the report says how each one was. A separate step could be forgotten, and would need a value
//! that nothing reads.

mod combination;
mod integer;
mod ntt;
mod ntt31;
mod point;
mod powers;
mod product;

pub use crate::program::Verification;
pub use combination::RandomCombination;
pub use integer::{CheckedInteger, SecretPrimes};
pub use ntt::verify_ntt;
pub use ntt31::verify_ntt31;
pub use product::{CheckedProduct, ProductModulus, verify_product, verify_product31};
