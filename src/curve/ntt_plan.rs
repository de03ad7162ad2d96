//! The parameters of a number-theoretic transform.

use serde::{Deserialize, Serialize};

use super::{Fr, serialized};

/// The decimation order of a transform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Decimation {
    /// Decimation in frequency (DIF, Gentleman-Sande): natural to bit-reversed order.
    Dif,
    /// Decimation in time (DIT, Cooley-Tukey): bit-reversed to natural order.
    Dit,
}

/// The parameters of a transform, common to all rows of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NttPlan {
    /// log2 of a row's length, at most [`TWO_ADICITY`](super::TWO_ADICITY).
    pub lg_n: u32,
    /// Whether evaluations become coefficients, including the factor 1/n.
    pub inverse: bool,
    /// The coset's generator, not zero; `None` for the subgroup itself.
    #[serde(with = "serialized::optional_fr")]
    pub coset: Option<Fr>,
    /// Whether the input is in bit-reversed order.
    pub input_reversed: bool,
    /// Whether the output is to be in bit-reversed order.
    pub output_reversed: bool,
}

impl NttPlan {
    /// The decimation that reads the input's order without a bit reversal.
    pub const fn decimation(&self) -> Decimation {
        if self.input_reversed { Decimation::Dit } else { Decimation::Dif }
    }

    /// Whether input and output have the same order, so that a bit reversal is needed.
    pub const fn needs_bit_reversal(&self) -> bool {
        self.input_reversed == self.output_reversed
    }
}
