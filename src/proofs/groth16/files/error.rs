//! What is wrong with a file.

use crate::{formats::FileFormat, groth16::WeakKey};

/// Why a file cannot be read or written. Messages never quote a value of a witness.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProofFileError {
    /// The file does not begin with the name of its format.
    #[error("not a .{expected} file: its first four bytes are not \"{expected}\"")]
    Magic {
        /// The expected bytes, as text.
        expected: &'static str,
    },
    /// The file has another format than the expected one.
    #[error("not {expected}: it is {got}")]
    OtherFormat {
        /// The expected format.
        expected: FileFormat,
        /// The file's format.
        got: FileFormat,
    },
    /// The format has another version.
    #[error("version {got} of the format; only version {expected} is supported")]
    Version {
        /// The supported version.
        expected: u32,
        /// The file's version.
        got: u32,
    },
    /// A part ends before its content does.
    #[error("truncated: {part} ends too early, {missing} bytes after byte {position} are missing")]
    Truncated {
        /// The name of the part.
        part: &'static str,
        /// The offset in the file of the first byte that was to be read.
        position: usize,
        /// The number of bytes that are missing.
        missing: u64,
    },
    /// A part has bytes after its content.
    #[error("{part} has {bytes} bytes too many, from byte {position} on")]
    TrailingBytes {
        /// The name of the part.
        part: &'static str,
        /// The offset in the file of the first byte too many.
        position: usize,
        /// The number of bytes too many.
        bytes: usize,
    },
    /// The file ends before its last section.
    #[error(
        "truncated: the header announces {announced} sections, but the file ends after {found}"
    )]
    MissingSections {
        /// The number of sections in the header.
        announced: u32,
        /// The number of sections in the file.
        found: u32,
    },
    /// The file goes on after its last section.
    #[error(
        "longer than its header says: section {sections} of {sections} ends at byte {position}, \
         and {bytes} bytes follow"
    )]
    AfterSections {
        /// The number of sections in the header.
        sections: u32,
        /// The offset in the file of the first byte after the last section.
        position: usize,
        /// The number of bytes from there on.
        bytes: usize,
    },
    /// A section that the format requires is missing.
    #[error("the file has no {section}")]
    MissingSection {
        /// The name of the section.
        section: &'static str,
    },
    /// A section appears twice.
    #[error("the {section} appears twice")]
    RepeatedSection {
        /// The name of the section.
        section: &'static str,
    },
    /// The file belongs to another field.
    #[error(
        "the prime must be that of BLS12-381's scalar field, 0x{expected}, but is {got} \
         (circom: --prime bls12381)"
    )]
    Prime {
        /// The file's prime: a name, or hex digits.
        got: String,
        /// The required prime in hex.
        expected: String,
    },
    /// The circuit uses custom gates, which are not products.
    #[error("the circuit has custom gates; only rank-1 constraints are supported")]
    CustomGates,
    /// A constraint is malformed.
    #[error("constraint {constraint}, matrix {matrix}: {problem}")]
    Constraint {
        /// The constraint's index.
        constraint: usize,
        /// The matrix: `a`, `b` or `c`.
        matrix: &'static str,
        /// What is wrong with it.
        problem: Box<Self>,
    },
    /// A constraint names a wire that does not exist.
    #[error("wire {wire} does not exist: the circuit has {wires} wires")]
    NoSuchWire {
        /// The index of the wire.
        wire: u32,
        /// The number of wires.
        wires: u32,
    },
    /// The header announces more wires than a file of this length can describe.
    #[error("the header announces {wires} wires, but a file of this length has at most {max}")]
    TooManyWires {
        /// The number of wires.
        wires: u32,
        /// The number that is accepted.
        max: usize,
    },
    /// A coefficient or a value is not below the prime.
    #[error("the value of wire {wire}, at byte {position}, is not below the prime")]
    NotCanonical {
        /// The index of the wire.
        wire: usize,
        /// The number's offset in the file.
        position: usize,
    },
    /// A point is malformed, is not on the curve, or is not in the subgroup.
    #[error("{part}[{index}], at byte {position}, is not a valid point")]
    InvalidPoint {
        /// The part of the key or proof.
        part: &'static str,
        /// The point's index in the part.
        index: usize,
        /// The point's offset in the file.
        position: usize,
    },
    /// Proofs of the key prove nothing, do not hide the witness, or do not verify.
    #[error(transparent)]
    WeakKey(#[from] WeakKey),
    /// The format counts constraints, wires and terms in 32 bits.
    #[error("too large for the format: {what} must be fewer than 2^32")]
    TooLarge {
        /// What the format counts.
        what: &'static str,
    },
}

impl ProofFileError {
    /// This error, or that the file has another format than expected, which explains it better.
    pub(super) fn explained_by_format(self, file: &[u8], expected: FileFormat) -> Self {
        match FileFormat::detect(file) {
            Some(got) if got != expected => Self::OtherFormat { expected, got },
            _ => self,
        }
    }
}
