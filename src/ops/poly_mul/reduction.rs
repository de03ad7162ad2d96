//! What products are reduced by.

use serde::{Deserialize, Serialize};

/// The polynomial that products are reduced by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum PolyReduction {
    /// None: the whole product.
    #[default]
    None,
    /// `X^n - 1`: cyclic convolution.
    Cyclic(u64),
    /// `X^n + 1`: negacyclic convolution.
    Negacyclic(u64),
}

impl PolyReduction {
    /// The degree n of the polynomial.
    pub const fn degree(self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Cyclic(n) | Self::Negacyclic(n) => Some(n),
        }
    }

    /// The name of the field in the contract that has the degree.
    pub(super) const fn field_name(self) -> &'static str {
        match self {
            Self::None => "inputs",
            Self::Cyclic(_) => "cyclic",
            Self::Negacyclic(_) => "negacyclic",
        }
    }
}
