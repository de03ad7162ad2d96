//! Common file formats of points and scalars: KZG trusted setups, arkworks' serialization, Zcash's
//! encodings, Montgomery limbs; scalars as text.
//!
//! The server checks points when they are put. This module only ensures that the data has the
//! length of its encoding.

pub mod detect;
pub mod kzg;
mod layout;
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

/// The format of a file, as its content shows it. Errors name a file's format if another one was
/// expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileFormat {
    /// A constraint system of circom.
    R1cs,
    /// A witness of circom.
    Wtns,
    /// A proving key of snarkjs.
    Zkey,
    /// Powers of tau of snarkjs.
    Ptau,
    /// A KZG trusted setup in the JSON of the consensus specifications.
    SetupJson,
    /// A KZG trusted setup in the first JSON of the consensus specifications.
    OldSetupJson,
    /// The JSON of a KZG ceremony.
    CeremonyTranscript,
    /// A verifying key of snarkjs.
    SnarkjsVerifyingKey,
    /// A proof of snarkjs.
    SnarkjsProof,
    /// What `capstan groth16 register` writes.
    KeyDescription,
    /// A JSON list, as of public inputs.
    JsonList,
    /// Another JSON object.
    JsonObject,
    /// Bytes as hex digits.
    HexText,
    /// A proof in arkworks' serialization.
    ArkProof,
    /// A verifying key in arkworks' serialization.
    ArkVerifyingKey,
    /// A proving key in arkworks' serialization.
    ArkProvingKey,
    /// Points in arkworks' serialization.
    ArkPoints,
    /// Points, keys or proofs of arkworks before version 0.4, whose points are little-endian.
    OldArk,
    /// A proof of gnark, with commitments.
    GnarkProof,
    /// A key of gnark or bellman.
    GnarkOrBellmanKey,
    /// Points of gnark or bellman.
    GnarkOrBellmanPoints,
    /// A trusted setup of halo2.
    Halo2Setup,
    /// Points in Zcash's encoding.
    ZcashPoints,
}

impl FileFormat {
    const fn name(self) -> &'static str {
        match self {
            Self::R1cs => "a .r1cs file",
            Self::Wtns => "a .wtns file",
            Self::Zkey => "a .zkey file of snarkjs",
            Self::Ptau => "a .ptau file of snarkjs",
            Self::SetupJson => "a KZG trusted setup in JSON",
            Self::OldSetupJson => "a KZG trusted setup in the old JSON (setup_G1, setup_G2)",
            Self::CeremonyTranscript => "the transcript of a KZG ceremony",
            Self::SnarkjsVerifyingKey => "a verifying key in snarkjs' JSON",
            Self::SnarkjsProof => "a proof in snarkjs' JSON",
            Self::KeyDescription => "a description of a key by capstan groth16 register",
            Self::JsonList => "a JSON list",
            Self::JsonObject => "a JSON object",
            Self::HexText => "text of hex digits",
            Self::ArkProof => "a proof in arkworks' serialization",
            Self::ArkVerifyingKey => "a verifying key in arkworks' serialization",
            Self::ArkProvingKey => "a proving key in arkworks' serialization",
            Self::ArkPoints => "a list of points in arkworks' serialization",
            Self::OldArk => "the serialization of arkworks 0.3 or older",
            Self::GnarkProof => "a proof of gnark",
            Self::GnarkOrBellmanKey => "a key of gnark or bellman",
            Self::GnarkOrBellmanPoints => "a list of points of gnark or bellman",
            Self::Halo2Setup => "a trusted setup of halo2",
            Self::ZcashPoints => "points in Zcash's encoding",
        }
    }
}

impl fmt::Display for FileFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
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
    /// The file has a format that is not one of points, or that is not supported.
    #[error("not points in a supported format (kzg-json, kzg-text, ark, zcash, raw): it is {0}")]
    OtherFormat(FileFormat),
    /// A list of a trusted setup is not what its name says.
    #[error("{list}: {problem}")]
    WrongList {
        /// The list.
        list: SetupList,
        /// What is wrong with it.
        problem: &'static str,
    },
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
