//! The data of a call.

use std::ops::Range;

use crate::{
    curve::points::Bases, engine::EncodedScalars, ops::host::ElementSink, sparse::SparseMatrix,
};

/// The data of a call. Every step of a run gets the same.
#[derive(Clone, Copy, Default)]
pub struct RunOperands<'a> {
    /// One per input step. Their names are not used: errors name the step.
    pub inputs: &'a [EncodedScalars<'a>],
    /// One per MSM step, as long as a row of its input.
    pub bases: &'a [Bases],
    /// One per step that uses a matrix, of the shape that the step states.
    pub matrices: &'a [SparseMatrix],
    /// One per output; `None` for points.
    pub sinks: &'a [Option<ElementSink<'a>>],
}

/// Elements of an input that a run needs next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwaitedElements {
    /// The number of the call's input.
    pub input: usize,
    /// Numbered within the input.
    pub elements: Range<u64>,
}
