//! The parameters of a transform, and its elements in device memory.

use crate::{curve::Fr, device::DevicePtr};

/// log2 of the longest transform: four passes, and 32 GiB of elements.
pub const LG_N_MAX: u32 = 30;

/// An element in device memory: the limbs of its Montgomery form, as in `curve::layout`.
pub type DeviceFr = [u64; 4];

/// Elements in device memory, as kernels take them.
pub(super) type ElementPtr = DevicePtr<DeviceFr>;

pub(super) const ELEMENT_BYTES: u64 = size_of::<DeviceFr>() as u64;

/// The decimation order of a transform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Decimation {
    /// Decimation in frequency (DIF, Gentleman-Sande): natural to bit-reversed order.
    Dif,
    /// Decimation in time (DIT, Cooley-Tukey): bit-reversed to natural order.
    Dit,
}

/// The parameters of a transform, shared by all rows of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NttTransform {
    /// log2 of a row's length, at most [`LG_N_MAX`].
    pub lg_n: u32,
    /// Whether evaluations become coefficients, including the factor 1/n.
    pub inverse: bool,
    /// The coset's generator, not zero; `None` for the subgroup itself.
    pub coset: Option<Fr>,
    /// Whether the input is in bit-reversed order.
    pub input_reversed: bool,
    /// Whether the output is in bit-reversed order.
    pub output_reversed: bool,
}

impl NttTransform {
    /// The decimation that reads the input's order without a bit reversal.
    pub const fn decimation(&self) -> Decimation {
        if self.input_reversed { Decimation::Dit } else { Decimation::Dif }
    }

    /// Whether the last pass does a bit reversal.
    pub const fn needs_bit_reversal(&self) -> bool {
        self.input_reversed == self.output_reversed
    }
}
