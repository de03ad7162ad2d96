//! The destination of an output vector.

use super::rows::HostRows;
use crate::{
    buffer::ByteSink,
    curve::{
        FrField,
        scalars::{ElementCodec, ScalarEncoding},
    },
    engines::{JobControl, write_elements},
    error::Result,
    field::{Gf2Words, IntegerLimbs},
};

/// The destination of an output vector: its rows, concatenated.
#[derive(Clone, Copy)]
pub struct ElementSink<'a> {
    /// An encoding that holds every element of the field.
    pub encoding: ScalarEncoding,
    pub sink: &'a dyn ByteSink,
}

impl ElementSink<'_> {
    /// Errors: those of the sink and of `control`.
    pub fn write(&self, rows: &HostRows, control: &JobControl) -> Result<()> {
        match rows {
            HostRows::Fr(rows) => self.write_rows(FrField, rows, control),
            HostRows::Prime31(field, rows) => self.write_rows(*field, rows, control),
            HostRows::Gf2(rows) => self.write_rows(Gf2Words, rows, control),
            HostRows::Integers(rows) => self.write_rows(IntegerLimbs, rows, control),
        }
    }

    fn write_rows<F: ElementCodec>(
        &self,
        field: F,
        rows: &[Vec<F::Element>],
        control: &JobControl,
    ) -> Result<()> {
        let mut start = 0;
        for row in rows {
            write_elements(field, self.encoding, self.sink, start, row, control)?;
            start += (row.len() * self.encoding.width()) as u64;
        }
        Ok(())
    }
}
