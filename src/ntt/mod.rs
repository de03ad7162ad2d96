//! Transforms over Fr on a GPU: data that lies in device memory, transformed there.
//!
//! [`Transforms`] has the kernels of one device and its tables of factors. A [`Transform`] says
//! what is wanted; [`Transforms::plan`] makes a [`Plan`] of it, with the tables it needs, which any
//! number of jobs may run at a time, each on its own stream. `kernels/ntt` says how it computes.
//! [`Pointwise`] is what provers do with vectors between transforms, and their value at a point as
//! polynomials.

mod choice;
mod coset;
mod evaluate;
mod kept;
mod kernels;
mod plan;
mod planner;
mod pointwise;
mod tables;

use crate::curve::Fr;

pub use choice::{chosen, table_bytes_max};
pub use evaluate::{End, Evaluation};
pub use plan::{Plan, Transforms, kernel_names};
pub use planner::{LG_N_MAX, Pass, TransformLimits, Way, merge, passes};
pub use pointwise::{Pointwise, Vanishing, Vector};

/// An element as the device has it: the limbs of its Montgomery form, as `curve::layout` shows
/// them.
pub type Element = [u64; 4];

/// What a transform computes; every row of a batch shares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transform {
    /// log2 of a row's length, at most [`LG_N_MAX`].
    pub lg_n: u32,
    /// Evaluations to coefficients, 1/n included.
    pub inverse: bool,
    /// The coset's generator, not zero; `None` for the subgroup itself.
    pub coset: Option<Fr>,
    /// The input is in bit-reversed order.
    pub input_reversed: bool,
    /// The output is wanted in bit-reversed order.
    pub output_reversed: bool,
}

impl Transform {
    /// The direction that needs no pass for the input's order.
    pub const fn way(&self) -> Way {
        if self.input_reversed { Way::Ascend } else { Way::Descend }
    }

    /// Whether the last pass has to change the order.
    pub const fn is_turned(&self) -> bool {
        self.input_reversed == self.output_reversed
    }
}
