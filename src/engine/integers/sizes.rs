//! The transforms that compute a product.

use crate::operation::PRODUCT_LIMBS_MAX;

/// How a product's coefficients follow from transforms. A product of 3u coefficients takes three
/// quarters of the work of one of 4u.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProductSize {
    /// The product modulo x^n - 1 has n coefficients, and is the product.
    Whole {
        /// log2 of n.
        lg_n: u32,
    },
    /// 3u coefficients, from the product modulo x^u - 1 and modulo x^(2u) + 1.
    Thirds {
        /// log2 of u.
        lg_u: u32,
    },
}

/// A transform of a factor, reduced to 2^`lg_n` coefficients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizeTransform {
    pub lg_n: u32,
    /// Whether it reduces modulo x^n + 1, not x^n - 1.
    pub is_negacyclic: bool,
}

impl ProductSize {
    /// The smallest size for a product of this number of limbs, at least 1 and at most
    /// [`PRODUCT_LIMBS_MAX`].
    pub fn of(limbs: u64) -> Self {
        debug_assert!((1..=PRODUCT_LIMBS_MAX).contains(&limbs));
        let Self::Whole { lg_n } = Self::whole(limbs) else { return Self::whole(limbs) };
        match lg_n.checked_sub(2) {
            Some(lg_u) if limbs <= 3 << lg_u => Self::Thirds { lg_u },
            _ => Self::Whole { lg_n },
        }
    }

    /// The smallest size of one part.
    pub fn whole(limbs: u64) -> Self {
        Self::Whole { lg_n: limbs.next_power_of_two().ilog2() }
    }

    /// The transforms modulo one prime.
    pub fn transforms(self) -> Vec<SizeTransform> {
        match self {
            Self::Whole { lg_n } => vec![SizeTransform { lg_n, is_negacyclic: false }],
            Self::Thirds { lg_u } => vec![
                SizeTransform { lg_n: lg_u, is_negacyclic: false },
                SizeTransform { lg_n: lg_u + 1, is_negacyclic: true },
            ],
        }
    }
}
