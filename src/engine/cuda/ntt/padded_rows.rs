//! Rows that are shorter than the transform.

use crate::buffer::ByteSource;

/// A source of rows, each padded with zeros.
pub struct PaddedRows<'a> {
    pub source: &'a dyn ByteSource,
    /// Bytes of a row before and after padding.
    pub row_bytes: u64,
    pub padded_bytes: u64,
}

impl ByteSource for PaddedRows<'_> {
    fn read(&self, at: u64, out: &mut [u8]) {
        let mut done = 0;
        while done < out.len() {
            let at = at + done as u64;
            let (row, within) = (at / self.padded_bytes, at % self.padded_bytes);
            let (end, given) = match within < self.row_bytes {
                true => (self.row_bytes, true),
                false => (self.padded_bytes, false),
            };
            let take = ((end - within) as usize).min(out.len() - done);
            let part = &mut out[done..done + take];
            if given {
                self.source.read(row * self.row_bytes + within, part);
            } else {
                part.fill(0);
            }
            done += take;
        }
    }
}
