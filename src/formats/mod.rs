//! Files of points and scalars as people have them: KZG trusted setups, arkworks' serialization,
//! Zcash's points back to back, Montgomery limbs; scalars as text.
//!
//! Nothing here checks points: the server does that at put. What this module promises is that the
//! bytes have the shape that the encoding says.

pub mod binary;
pub mod kzg;
pub mod scalars;

use bytes::Bytes;

use crate::curve::{Group, points::PointEncoding};

/// A file's list of points: not checked, but of a whole number of points.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PointSet {
    /// Which list of the file, where it has several.
    pub set: Option<kzg::Set>,
    /// The points' group.
    pub group: Group,
    /// How each point is written.
    pub encoding: PointEncoding,
    /// The points, one after another.
    pub data: Bytes,
}

impl PointSet {
    /// How many points there are.
    pub fn count(&self) -> usize {
        self.data.len() / self.encoding.point_bytes(self.group)
    }

    /// Puts point i to the reverse of i's lg n bits, as EIP-4844 orders a blob's evaluations.
    ///
    /// Errors: the count must be a power of two.
    pub fn bit_reverse(&mut self) -> Result<(), Error> {
        let count = self.count();
        if !count.is_power_of_two() {
            return Err(Error::NotPowerOfTwo { count });
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

/// The lowest `lg_n` bits of `index` in reverse order.
pub const fn reverse_bits(index: usize, lg_n: u32) -> usize {
    if lg_n == 0 { 0 } else { index.reverse_bits() >> (usize::BITS - lg_n) }
}

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not JSON, or not the JSON of a trusted setup.
    #[error("not a KZG trusted setup: {0}")]
    Json(#[from] serde_json::Error),
    /// The text ends early, or goes on where it should end.
    #[error("not a KZG trusted setup: {0}")]
    Text(String),
    /// A point or scalar that is not written as it should be. Never quotes the value.
    #[error("{field}[{index}]: {problem}")]
    Element {
        /// Which list.
        field: &'static str,
        /// The first bad element, from 0.
        index: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// The file does not have the set that was asked for.
    #[error("the file has no {0}")]
    NoSuchSet(kzg::Set),
    /// A length that no whole number of elements has.
    #[error("{bytes} bytes are no whole number of {width}-byte {what}")]
    Length {
        /// What came.
        bytes: usize,
        /// Bytes of one element.
        width: usize,
        /// `points` or `scalars`.
        what: &'static str,
    },
    /// The length that arkworks writes first is not what follows.
    #[error("not arkworks' serialization: it announces {announced} points, {bytes} bytes follow")]
    Prefix {
        /// What the first 8 bytes say.
        announced: u64,
        /// Bytes after them.
        bytes: usize,
    },
    /// Several readings are possible: the user must say which.
    #[error("cannot tell what the file holds: it may be {candidates}; say --format and --group")]
    Ambiguous {
        /// The readings, for people.
        candidates: String,
    },
    /// No reading is possible.
    #[error(
        "not points in any known format (kzg-json, kzg-text, ark, zcash, raw); \
         --format says what it should be, and then what is wrong with it"
    )]
    Unknown,
    /// Bit reversal needs a power of two.
    #[error("{count} points are not a power of two: they have no bit-reversed order")]
    NotPowerOfTwo {
        /// How many there are.
        count: usize,
    },
    /// Nothing in it.
    #[error("no points in it")]
    Empty,
}
