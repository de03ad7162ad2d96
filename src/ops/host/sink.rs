//! The destination of an output vector.

use crate::{
    buffer::ByteSink,
    curve::{Fr, scalars::ScalarEncoding},
    engine::{JobControl, write_elements},
    error::Result,
};

/// The destination of an output vector: its rows, concatenated.
#[derive(Clone, Copy)]
pub struct ElementSink<'a> {
    /// An encoding that holds every element: not a narrow one.
    pub encoding: ScalarEncoding,
    pub sink: &'a dyn ByteSink,
}

impl ElementSink<'_> {
    /// Errors: those of the sink and of `control`.
    pub fn write(&self, rows: &[Vec<Fr>], control: &JobControl) -> Result<()> {
        let mut start = 0;
        for row in rows {
            write_elements(self.encoding, self.sink, start, row, control)?;
            start += (row.len() * self.encoding.width()) as u64;
        }
        Ok(())
    }
}
