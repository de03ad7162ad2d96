//! How results are checked, and checks that cost less than recomputing the result.
//!
//! A call asks for checks, not a step of a program: `verify` checks all steps that can be checked,
//! and the report says how each one was. A separate step could be forgotten, and would need a value
//! that nothing reads.

use serde::{Deserialize, Serialize};

#[cfg(feature = "server")]
mod combination;
#[cfg(feature = "server")]
mod integer;
#[cfg(feature = "server")]
mod ntt;
#[cfg(feature = "server")]
mod ntt31;
#[cfg(feature = "server")]
mod point;
#[cfg(feature = "server")]
mod powers;
#[cfg(feature = "server")]
mod product;

#[cfg(feature = "server")]
pub use combination::RandomCombination;
#[cfg(feature = "server")]
pub use integer::{CheckedInteger, SecretPrimes};
#[cfg(feature = "server")]
pub use ntt::verify_ntt;
#[cfg(feature = "server")]
pub use ntt31::verify_ntt31;
#[cfg(feature = "server")]
pub use product::{CheckedProduct, ProductModulus, verify_product, verify_product31};

/// How the server checks a result before it returns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Verification {
    /// No check.
    #[default]
    None,
    /// Recompute the result with arkworks on other threads.
    Full,
    /// NTTs: evaluate input and output at a secret random point. MSMs: compute one more over a
    /// secret random combination of all scalar vectors.
    Probabilistic,
}
