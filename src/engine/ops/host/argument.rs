//! The inputs of a step.

use std::ops::Range;

use super::{
    field::HostElements,
    rows::{HostRows, Rows, padded},
};
use crate::{
    buffer::{ByteSource, SharedPiece, Shifted, SourceSlices},
    curve::{FrField, layout, scalars::ScalarEncoding},
    engines::{EncodedScalars, JobControl},
    error::{Error, Result},
    program::InputSpec,
};

/// A vector that a step reads.
pub enum HostArgument<'a> {
    /// No later step reads it: the step may overwrite it.
    Owned(HostRows),
    Borrowed(&'a HostRows),
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
    spec: InputSpec,
    /// The number of the first element in its input.
    first: u64,
    source: RowSource<'a>,
}

enum RowSource<'a> {
    Decoded(&'a [u8]),
    Encoded(Shifted<&'a dyn ByteSource>),
}

impl HostArgument<'_> {
    /// The rows as elements of the field.
    pub fn rows<F: HostElements>(&self, field: F) -> Result<&[Vec<F::Element>]> {
        match self {
            Self::Owned(rows) => field.rows(rows),
            Self::Borrowed(rows) => field.rows(rows),
            Self::Encoded(_) => Err(Error::Internal("the step needs decoded elements".into())),
        }
    }

    /// The rows to overwrite: a copy unless they are owned.
    ///
    /// Errors: those of `control`; `Internal` if they are encoded.
    pub fn into_rows<F: HostElements>(
        self,
        field: F,
        control: &JobControl,
    ) -> Result<Rows<F::Element>> {
        let borrowed = match self {
            Self::Owned(rows) => return field.into_rows(rows),
            borrowed => borrowed,
        };
        let rows = borrowed.rows(field)?;
        padded(rows, rows.first().map_or(0, Vec::len), control)
    }

    pub fn row_count(&self) -> usize {
        match self {
            Self::Owned(rows) => rows.count(),
            Self::Borrowed(rows) => rows.count(),
            Self::Encoded(encoded) => encoded.rows,
        }
    }

    /// Elements `range` of a row over Fr, checked or not.
    ///
    /// Errors: `Internal` for rows over another field.
    pub fn range(&self, row: usize, range: Range<usize>) -> Result<RowRange<'_>> {
        let count = range.len() as u64;
        let decoded = match self {
            Self::Owned(rows) => &FrField.rows(rows)?[row],
            Self::Borrowed(rows) => &FrField.rows(rows)?[row],
            Self::Encoded(EncodedRows { elements, length, .. }) => {
                let first = row * length + range.start;
                let start = (first * elements.spec.encoding.width()) as u64;
                return Ok(RowRange {
                    spec: InputSpec { count, ..elements.spec },
                    first: first as u64,
                    source: RowSource::Encoded(Shifted { all: elements.source, start }),
                });
            }
        };
        Ok(RowRange {
            spec: InputSpec::new(ScalarEncoding::Montgomery, count),
            first: range.start as u64,
            source: RowSource::Decoded(layout::fr_as_bytes(&decoded[range])),
        })
    }
}

impl RowRange<'_> {
    pub fn scalars(&self) -> EncodedScalars<'_> {
        let &Self { spec, first, ref source } = self;
        EncodedScalars { spec, first, source }
    }
}

impl ByteSource for RowSource<'_> {
    fn read(&self, at: u64, out: &mut [u8]) {
        match self {
            Self::Decoded(bytes) => bytes.read(at, out),
            Self::Encoded(source) => source.read(at, out),
        }
    }

    fn is_intact(&self) -> bool {
        match self {
            Self::Decoded(_) => true,
            Self::Encoded(source) => source.is_intact(),
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
