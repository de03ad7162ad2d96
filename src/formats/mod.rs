//! Common file formats of points and scalars: KZG trusted setups, arkworks' serialization, Zcash's
//! encodings, Montgomery limbs; scalars as text.
//!
//! The server checks points when they are put. This module only ensures that the data has the
//! length of its encoding.

pub mod detect;
pub mod kzg;
pub mod scalars;

use std::fmt;

use bytes::Bytes;

use crate::curve::{Group, points::PointEncoding, reverse_bits};

/// One list of a trusted setup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SetupList {
    /// `[L_i(tau)] G1`, natural order.
    G1Lagrange,
    /// `[tau^i] G1`.
    G1Monomial,
    /// `[tau^i] G2`.
    G2Monomial,
}

impl SetupList {
    /// All lists, in the order of the JSON.
    pub const ALL: [Self; 3] = [Self::G1Monomial, Self::G1Lagrange, Self::G2Monomial];

    /// The list's name in the JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::G1Lagrange => "g1_lagrange",
            Self::G1Monomial => "g1_monomial",
            Self::G2Monomial => "g2_monomial",
        }
    }

    /// The points' group.
    pub const fn group(self) -> Group {
        match self {
            Self::G1Lagrange | Self::G1Monomial => Group::G1,
            Self::G2Monomial => Group::G2,
        }
    }
}

impl fmt::Display for SetupList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A file's list of points: a whole number of them, not checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PointSet {
    /// Name of the list, if the file has several.
    pub list: Option<SetupList>,
    /// The points' group.
    pub group: Group,
    /// Encoding of each point.
    pub encoding: PointEncoding,
    /// The points, one after another.
    pub data: Bytes,
}

impl PointSet {
    /// Number of points.
    pub fn count(&self) -> usize {
        self.data.len() / self.encoding.point_bytes(self.group)
    }

    /// Moves point i to the index that reverses i's lg n bits, as in EIP-4844's blobs.
    ///
    /// Errors: `NotPowerOfTwo`.
    pub fn bit_reverse(&mut self) -> Result<(), FormatError> {
        let count = self.count();
        if !count.is_power_of_two() {
            return Err(FormatError::NotPowerOfTwo { count });
        }
        let width = self.encoding.point_bytes(self.group);
        let mut reordered = Vec::with_capacity(self.data.len());
        for index in 0..count {
            let from = reverse_bits(index, count.ilog2()) * width;
            reordered.extend_from_slice(&self.data[from..from + width]);
        }
        self.data = reordered.into();
        Ok(())
    }
}

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// The file is not the JSON of a trusted setup.
    #[error("not a KZG trusted setup: {0}")]
    Json(#[from] serde_json::Error),
    /// The file is not the text of a trusted setup.
    #[error("not a KZG trusted setup: {0}")]
    Text(String),
    /// A point or scalar is malformed. The message never quotes its value.
    #[error("{field}[{index}]: {problem}")]
    Element {
        /// Name of the list.
        field: &'static str,
        /// Index of the first invalid element, from 0.
        index: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// The file does not have the requested list.
    #[error("the file has no {0}")]
    NoSuchSet(SetupList),
    /// The length is not a multiple of an element's.
    #[error("{bytes} bytes are not a whole number of {width}-byte {what}")]
    Length {
        /// Length of the file in bytes.
        bytes: usize,
        /// Bytes of one element.
        width: usize,
        /// `points` or `scalars`.
        what: &'static str,
    },
    /// The count at the beginning of arkworks' serialization does not match the data.
    #[error("not arkworks' serialization: it announces {announced} points, {bytes} bytes follow")]
    CountMismatch {
        /// Points announced by the first 8 bytes.
        announced: u64,
        /// Length of the rest in bytes.
        bytes: usize,
    },
    /// The file has several interpretations, of which the user must choose one.
    #[error("the file is ambiguous: it may be {candidates}; specify --format and --group")]
    Ambiguous {
        /// The interpretations, for people.
        candidates: String,
    },
    /// The file matches no known format.
    #[error(
        "not points in any known format (kzg-json, kzg-text, ark, zcash, raw); \
         specify --format to see what is wrong"
    )]
    UnknownFormat,
    /// The number of points is not a power of two, which bit reversal requires.
    #[error("bit-reversed order requires a power of two, not {count} points")]
    NotPowerOfTwo {
        /// Number of points.
        count: usize,
    },
    /// The file has no points.
    #[error("the file has no points")]
    Empty,
}
