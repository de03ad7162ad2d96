//! The data of a call.

use std::ops::Range;

use crate::{
    curve::points::Bases,
    engine::EncodedScalars,
    error::{Error, Result},
    ops::host::ElementSink,
    sparse::SparseMatrix,
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

impl RunOperands<'_> {
    /// Called after the bases and matrices were read.
    ///
    /// Errors: `DiskFailed` if the disk failed to read some of their bytes, which were taken for
    /// zeros.
    pub fn check_files(&self) -> Result<()> {
        let is_intact = self.bases.iter().all(Bases::is_intact)
            && self.matrices.iter().all(SparseMatrix::is_intact);
        if is_intact { Ok(()) } else { Err(Error::DiskFailed) }
    }
}

/// Elements of an input that a run needs next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwaitedElements {
    /// The number of the call's input.
    pub input: usize,
    /// Numbered within the input.
    pub elements: Range<u64>,
}
