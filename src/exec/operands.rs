//! The data of a call.

use crate::{
    buffer::ByteSink,
    curve::{Fr, points::Bases, scalars::ScalarEncoding},
    engine::{EncodedScalars, write_elements},
    error::Result,
};

/// The data of a call. Every step of a run gets the same.
#[derive(Clone, Copy)]
pub struct RunOperands<'a> {
    /// One per input step. Their names are not used: errors name the step.
    pub inputs: &'a [EncodedScalars<'a>],
    /// One per MSM step, as long as a row of its input.
    pub bases: &'a [Bases],
    /// One per output; `None` for points.
    pub sinks: &'a [Option<ElementSink<'a>>],
}

/// The destination of an output vector: its rows, concatenated.
#[derive(Clone, Copy)]
pub struct ElementSink<'a> {
    /// Not narrow.
    pub encoding: ScalarEncoding,
    pub sink: &'a dyn ByteSink,
}

impl ElementSink<'_> {
    pub(super) fn write(&self, rows: &[Vec<Fr>]) -> Result<()> {
        let mut start = 0;
        for row in rows {
            write_elements(self.encoding, self.sink, start, row)?;
            start += (row.len() * self.encoding.width()) as u64;
        }
        Ok(())
    }
}
