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
    fn read(&self, offset: u64, out: &mut [u8]) {
        let mut done = 0;
        while done < out.len() {
            let offset = offset + done as u64;
            let (row, column) = (offset / self.padded_bytes, offset % self.padded_bytes);
            let is_padding = column >= self.row_bytes;
            let end = if is_padding { self.padded_bytes } else { self.row_bytes };
            let bytes = ((end - column) as usize).min(out.len() - done);
            let part = &mut out[done..done + bytes];
            if is_padding {
                part.fill(0);
            } else {
                self.source.read(row * self.row_bytes + column, part);
            }
            done += bytes;
        }
    }
}
