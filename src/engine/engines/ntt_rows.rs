//! Rows to transform: input, shape and output.

use parking_lot::Mutex;
use rayon::prelude::*;
use zeroize::Zeroizing;

use super::{EncodedScalars, JobControl, long_rows};
use crate::{
    buffer::{ByteSink, ByteSource},
    curve::{
        Fr, FrField, layout,
        scalars::{ElementCodec, ScalarEncoding},
    },
    error::Result,
};

/// Bytes that one thread writes at a time.
const THREAD_WRITE_BYTES: usize = 256 << 10;

/// Rows of one shape, one after another, and the destination of their transforms.
#[derive(Clone, Copy)]
pub struct NttRows<'a> {
    /// `count * row_length` elements.
    pub input: EncodedScalars<'a>,
    /// Number of rows.
    pub count: usize,
    /// Elements in each input row; zeros pad it to 2^lg_n.
    pub row_length: usize,
    /// The encoding of the output, 32 bytes per element.
    pub encoding: ScalarEncoding,
    /// Destination of the output, `count * 2^lg_n` elements.
    pub output: &'a dyn ByteSink,
    /// Whether to check each transform at a secret random point, if the engine can:
    /// [`ExecutedBy::checked_on_device`](super::ExecutedBy::checked_on_device) reports it.
    pub check_on_device: bool,
}

impl NttRows<'_> {
    /// Decodes rows, pads them to 2^lg_n, transforms and writes them, on the current rayon pool.
    ///
    /// Errors: `Invalid` for the first element that is not below r; those of `transform` and of
    /// `control`.
    pub fn transform_decoded(
        &self,
        lg_n: u32,
        control: &JobControl,
        transform: impl FnOnce(&mut [Vec<Fr>]) -> Result<()>,
    ) -> Result<()> {
        let mut rows = Zeroizing::new(Vec::with_capacity(self.count));
        for row in 0..self.count {
            rows.push(Vec::with_capacity(1 << lg_n));
            long_rows::pad(&mut rows[row], 1 << lg_n, control)?;
            let elements = &mut rows[row][..self.row_length];
            self.input.decode_elements(FrField, row * self.row_length, elements, control)?;
        }
        transform(&mut rows)?;
        let rows = rows.par_iter().enumerate();
        rows.try_for_each(|(row, elements)| {
            let start = ((row as u64) << lg_n) * 32;
            write_elements(FrField, self.encoding, self.output, start, elements, control)
        })
    }
}

/// Encodes `elements` and writes them from byte `start` on. Parallel in the current rayon pool.
///
/// Shape: `encoding` holds every element of the field.
/// Errors: those of `output` and of `control`.
pub fn write_elements<F: ElementCodec>(
    field: F,
    encoding: ScalarEncoding,
    output: &dyn ByteSink,
    start: u64,
    elements: &[F::Element],
    control: &JobControl,
) -> Result<()> {
    let width = encoding.width();
    let pieces = elements.par_chunks(THREAD_WRITE_BYTES / width).enumerate();
    pieces.try_for_each_init(Zeroizing::<Vec<u8>>::default, |buffer, (piece, elements)| {
        control.check()?;
        let at = start + (piece * THREAD_WRITE_BYTES) as u64;
        if encoding == ScalarEncoding::in_memory(field.id()) {
            return output.write(at, F::as_bytes(elements));
        }
        buffer.resize(elements.len() * width, 0);
        field.encode(encoding, elements, buffer);
        output.write(at, buffer)
    })
}

/// Rows in memory that are read and then overwritten.
pub(super) struct RowsInPlace<'a> {
    rows: Vec<Mutex<&'a mut [u8]>>,
    row_bytes: usize,
}

impl<'a> RowsInPlace<'a> {
    /// Shape: all rows have the same length.
    pub fn new(rows: &'a mut [Vec<Fr>]) -> Self {
        let row_bytes = rows.first().map_or(0, |row| size_of_val(row.as_slice()));
        let rows = rows.iter_mut().map(|row| Mutex::new(layout::fr_as_bytes_mut(row))).collect();
        Self { rows, row_bytes }
    }

    /// Calls `visit(part of a row, the part's range in the caller's bytes)` for each row touched.
    fn visit(&self, at: u64, len: usize, mut visit: impl FnMut(&mut [u8], std::ops::Range<usize>)) {
        let mut done = 0;
        while done < len {
            let at = at as usize + done;
            let row = at / self.row_bytes;
            let within = at % self.row_bytes;
            let take = (self.row_bytes - within).min(len - done);
            let mut row = self.rows[row].lock();
            visit(&mut row[within..within + take], done..done + take);
            done += take;
        }
    }
}

impl ByteSource for RowsInPlace<'_> {
    fn read(&self, at: u64, out: &mut [u8]) {
        self.visit(at, out.len(), |row, range| out[range].copy_from_slice(row));
    }

    fn is_intact(&self) -> bool {
        true
    }
}

impl ByteSink for RowsInPlace<'_> {
    fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        self.visit(at, bytes.len(), |row, range| row.copy_from_slice(&bytes[range]));
        Ok(())
    }
}
