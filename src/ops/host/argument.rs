//! The inputs of a step.

use std::ops::Range;

use super::rows::{HostRows, padded};
use crate::{
    buffer::{ByteSource, SharedPiece, Shifted, SourceSlices},
    curve::{Fr, layout, scalars::ScalarEncoding},
    engine::{ElementNames, EncodedScalars, JobControl},
    error::{Error, Result},
};

/// A vector that a step reads.
pub enum HostArgument<'a> {
    /// No later step reads it: the step may overwrite it.
    Owned(HostRows),
    Borrowed(&'a [Vec<Fr>]),
    /// An input of the call, for steps that read any encoding.
    Encoded(EncodedRows<'a>),
}

/// Rows that have not been checked yet.
#[derive(Clone, Copy)]
pub struct EncodedRows<'a> {
    /// All rows, concatenated.
    pub elements: EncodedScalars<'a>,
    pub rows: usize,
    /// Elements of a row.
    pub length: usize,
}

/// A range of a row, as engines read it.
pub struct RowRange<'a> {
    encoding: ScalarEncoding,
    reduce: bool,
    count: usize,
    names: ElementNames,
    source: RowSource<'a>,
}

enum RowSource<'a> {
    Decoded(&'a [u8]),
    Encoded(Shifted<&'a dyn ByteSource>),
}

impl HostArgument<'_> {
    /// The rows as elements.
    pub fn rows(&self) -> Result<&[Vec<Fr>]> {
        match self {
            Self::Owned(rows) => Ok(rows),
            Self::Borrowed(rows) => Ok(rows),
            Self::Encoded(_) => Err(Error::Internal("the step needs decoded elements".into())),
        }
    }

    /// The rows to overwrite: a copy unless they are owned.
    ///
    /// Errors: those of `control`; `Internal` if they are encoded.
    pub fn into_rows(self, control: &JobControl) -> Result<HostRows> {
        let borrowed = match self {
            Self::Owned(rows) => return Ok(rows),
            borrowed => borrowed,
        };
        let rows = borrowed.rows()?;
        padded(rows, rows.first().map_or(0, Vec::len), control)
    }

    pub fn row_count(&self) -> usize {
        match self {
            Self::Owned(rows) => rows.len(),
            Self::Borrowed(rows) => rows.len(),
            Self::Encoded(encoded) => encoded.rows,
        }
    }

    /// Elements `range` of a row, checked or not.
    pub fn range(&self, row: usize, range: Range<usize>) -> RowRange<'_> {
        let names = |first: usize| ElementNames { field: "elements", first: first as u64 };
        let decoded = match self {
            Self::Owned(rows) => &rows[row],
            Self::Borrowed(rows) => &rows[row],
            Self::Encoded(EncodedRows { elements, length, .. }) => {
                let first = row * length + range.start;
                let start = (first * elements.encoding.width()) as u64;
                return RowRange {
                    encoding: elements.encoding,
                    reduce: elements.reduce,
                    count: range.len(),
                    names: names(first),
                    source: RowSource::Encoded(Shifted { all: elements.source, start }),
                };
            }
        };
        RowRange {
            encoding: ScalarEncoding::Montgomery,
            reduce: false,
            count: range.len(),
            names: names(range.start),
            source: RowSource::Decoded(layout::fr_as_bytes(&decoded[range])),
        }
    }
}

impl RowRange<'_> {
    pub fn scalars(&self) -> EncodedScalars<'_> {
        let &Self { encoding, reduce, count, names, ref source } = self;
        EncodedScalars { encoding, reduce, count, names, source }
    }
}

impl ByteSource for RowSource<'_> {
    fn read(&self, at: u64, out: &mut [u8]) {
        match self {
            Self::Decoded(bytes) => bytes.read(at, out),
            Self::Encoded(source) => source.read(at, out),
        }
    }

    fn device_source(&self, range: Range<u64>) -> Option<SourceSlices<'_>> {
        match self {
            Self::Decoded(_) => None,
            Self::Encoded(source) => source.device_source(range),
        }
    }

    fn shared_pieces(&self, range: Range<u64>) -> Option<Vec<SharedPiece>> {
        match self {
            Self::Decoded(_) => None,
            Self::Encoded(source) => source.shared_pieces(range),
        }
    }
}
