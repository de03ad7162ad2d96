//! The destination of an output vector.

use crate::{
    buffer::ByteSink,
    curve::{Fr, scalars::ScalarEncoding},
    engine::write_elements,
    error::Result,
};

/// The destination of an output vector: its rows, concatenated.
#[derive(Clone, Copy)]
pub struct ElementSink<'a> {
    /// Not narrow.
    pub encoding: ScalarEncoding,
    pub sink: &'a dyn ByteSink,
}

impl ElementSink<'_> {
    pub fn write(&self, rows: &[Vec<Fr>]) -> Result<()> {
        let mut start = 0;
        for row in rows {
            write_elements(self.encoding, self.sink, start, row)?;
            start += (row.len() * self.encoding.width()) as u64;
        }
        Ok(())
    }
}
