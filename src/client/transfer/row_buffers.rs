//! The memory of the rows of an NTT.

use super::payload::{OutgoingBytes, OwnedElements};

pub(crate) enum RowBuffers<'a> {
    InPlace(&'a mut [u8]),
    /// Rows that are sent without a copy, and then overwritten with the result.
    Owned(OwnedElements),
    Separate {
        input: &'a [u8],
        output: &'a mut [u8],
    },
}

impl RowBuffers<'_> {
    pub fn input_bytes(&self) -> u64 {
        match self {
            Self::InPlace(rows) => rows.len() as u64,
            Self::Owned(rows) => rows.as_bytes().len() as u64,
            Self::Separate { input, .. } => input.len() as u64,
        }
    }

    pub fn output_bytes(&self) -> u64 {
        match self {
            Self::InPlace(_) | Self::Owned(_) => self.input_bytes(),
            Self::Separate { output, .. } => output.len() as u64,
        }
    }

    /// Where to write the result. Drop what [`Self::payload`] returned first, or owned rows are
    /// copied.
    pub fn output(&mut self) -> &mut [u8] {
        match self {
            Self::InPlace(rows) | Self::Separate { output: rows, .. } => rows,
            Self::Owned(rows) => rows.as_bytes_mut(),
        }
    }

    pub fn payload(&self) -> OutgoingBytes<'_> {
        match self {
            Self::InPlace(rows) => OutgoingBytes::Secret(rows),
            Self::Owned(rows) => OutgoingBytes::Shared(rows.share()),
            Self::Separate { input, .. } => OutgoingBytes::Secret(input),
        }
    }

    pub fn total_bytes(&self) -> u64 {
        self.input_bytes() + self.output_bytes()
    }
}
