//! The data of a call.

use std::{
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
};

use crate::{
    curve::points::{Bases, MsmSums},
    engines::EncodedScalars,
    error::{Error, InputError, Result},
    ops::host::ElementSink,
    sparse::SparseMatrix,
};

/// A function that receives the sums of an output.
pub type SumsListener<'a> = &'a (dyn Fn(&MsmSums) + Sync);

/// The data of a call. Every step of a run gets the same.
#[derive(Clone, Copy, Default)]
pub struct RunOperands<'a> {
    /// One per input step.
    pub inputs: &'a [EncodedScalars<'a>],
    /// One per MSM step, as long as a row of its input.
    pub bases: &'a [Bases],
    /// One per step that uses a matrix, of the shape that the step states.
    pub matrices: &'a [SparseMatrix],
    /// One per output; `None` for points.
    pub sinks: &'a [Option<ElementSink<'a>>],
    /// One per output, or empty. A listener may be called while the run goes on: the sums are valid
    /// only if the run succeeds, and its report has them again.
    pub early_sums: &'a [Option<SumsListener<'a>>],
}

impl<'a> RunOperands<'a> {
    /// The listener of an output; `None` if its sums are not wanted early.
    pub fn early_listener(&self, output: usize) -> Option<SumsListener<'a>> {
        self.early_sums.get(output).copied().flatten()
    }

    /// Runs a step that reads or writes the operands.
    ///
    /// Errors: those of `step`; `DiskFailed`, regardless of the step's result, if some bytes of
    /// bases or matrices could not be read and were read as zeros; `Invalid` if the client has
    /// released pages of a region of an input or an output.
    pub fn run<T>(&self, step: impl FnOnce() -> Result<T>) -> Result<T> {
        // A damaged matrix can make a step panic.
        let done = catch_unwind(AssertUnwindSafe(step));
        if matches!(done, Ok(Err(Error::DiskFailed))) {
            // A worker does not name the file, so all stored operands count as damaged.
            self.bases.iter().for_each(Bases::mark_damaged);
            self.matrices.iter().for_each(SparseMatrix::mark_damaged);
        }
        let is_intact = self.bases.iter().all(Bases::is_intact)
            && self.matrices.iter().all(SparseMatrix::is_intact);
        if !is_intact {
            return Err(Error::DiskFailed);
        }
        let has_lost_pages = self.inputs.iter().any(|input| !input.source.is_intact())
            || self.sinks.iter().flatten().any(|output| !output.sink.is_intact());
        if has_lost_pages {
            return Err(InputError::released_pages().into());
        }
        done.unwrap_or_else(|panic| resume_unwind(panic))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{buffer::ByteSource, curve::scalars::ScalarEncoding};

    struct Region {
        is_intact: bool,
    }

    impl ByteSource for Region {
        fn read(&self, _: u64, out: &mut [u8]) {
            out.fill(0);
        }

        fn is_intact(&self) -> bool {
            self.is_intact
        }
    }

    #[test]
    fn a_step_that_read_a_region_without_its_pages_fails() {
        let run = |is_intact| {
            let source = Region { is_intact };
            let inputs = [EncodedScalars::new(ScalarEncoding::Canonical, 1, &source)];
            RunOperands { inputs: &inputs, ..RunOperands::default() }.run(|| Ok(7))
        };
        assert_eq!(run(true), Ok(7));
        assert_eq!(run(false), Err(InputError::released_pages().into()));
    }
}
