//! The parameters of a number-theoretic transform.

use serde::{Deserialize, Serialize};

use super::Fr;

/// The decimation order of a transform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Decimation {
    /// Decimation in frequency (DIF, Gentleman-Sande): natural to bit-reversed order.
    Dif,
    /// Decimation in time (DIT, Cooley-Tukey): bit-reversed to natural order.
    Dit,
}

/// The parameters of a transform over the field with elements `E`, common to all rows of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NttPlan<E = Fr> {
    /// log2 of a row's length, at most the field's two-adicity.
    pub lg_n: u32,
    /// Whether evaluations become coefficients, including the factor 1/n.
    pub inverse: bool,
    /// The coset's generator, not zero; `None` for the subgroup itself.
    pub coset: Option<E>,
    /// Whether the input is in bit-reversed order.
    pub input_reversed: bool,
    /// Whether the output is to be in bit-reversed order.
    pub output_reversed: bool,
}

impl<E> NttPlan<E> {
    /// Coefficients to evaluations on the subgroup of 2^`lg_n` elements, both in natural order.
    pub const fn forward(lg_n: u32) -> Self {
        Self { lg_n, inverse: false, coset: None, input_reversed: false, output_reversed: false }
    }

    /// Evaluations to coefficients: the inverse of [`Self::forward`].
    pub fn inverse(lg_n: u32) -> Self {
        Self { inverse: true, ..Self::forward(lg_n) }
    }

    /// The same transform, with another form of the coset's generator.
    pub fn with_coset<C>(self, coset: Option<C>) -> NttPlan<C> {
        let Self { lg_n, inverse, input_reversed, output_reversed, .. } = self;
        NttPlan { lg_n, inverse, coset, input_reversed, output_reversed }
    }

    /// The decimation that reads the input's order without a bit reversal.
    pub const fn decimation(&self) -> Decimation {
        if self.input_reversed { Decimation::Dit } else { Decimation::Dif }
    }

    /// Whether input and output have the same order, so that a bit reversal is needed.
    pub const fn needs_bit_reversal(&self) -> bool {
        self.input_reversed == self.output_reversed
    }
}

impl Decimation {
    /// Decimation in time for decimation in frequency, and vice versa.
    pub const fn other(self) -> Self {
        match self {
            Self::Dif => Self::Dit,
            Self::Dit => Self::Dif,
        }
    }
}
