//! Options and inputs of calls.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use capstan_math::{
    builder::{Direction, Order},
    curve::{Fr, layout::fr_as_bytes, points::SumEncoding, scalars::ScalarEncoding},
    program::{InputSpec, Verification},
    runner::Progress,
};
use zeroize::Zeroizing;

use super::{SharedVector, convert, error::Result, shared_vector::RunVector, types::UploadKey};
use crate::{
    transfer::payload::{OutgoingBytes, owned_fr},
    wire::v1::{self, program_input::Source},
};

/// Options of an MSM.
#[derive(Clone)]
pub struct MsmOptions {
    /// Number of scalar vectors, one after another, each as long as the bases: 1 to 65536.
    pub batch: u32,
    /// How the server checks the result.
    pub verify: Verification,
    /// Encoding of the sums in the response, which [`super::Client::msm_id`] returns unchanged.
    /// `Projective` is cheapest for the server.
    pub result_encoding: SumEncoding,
    /// Reduce 32-byte scalars modulo r; otherwise the server refuses scalars that are not below r.
    pub reduce: bool,
    /// Time limit of the whole call, retries included; defaults to the client's.
    pub deadline: Option<Duration>,
    /// Called as bytes are sent.
    pub progress: Option<Progress>,
}

impl Default for MsmOptions {
    fn default() -> Self {
        Self {
            batch: 1,
            verify: Verification::None,
            result_encoding: SumEncoding::Projective,
            reduce: false,
            deadline: None,
            progress: None,
        }
    }
}

/// Options of an NTT. The default transforms one row forward, in natural order, without a coset.
/// `C` is the type of the coset's generator: `u32` in fields of a prime below 2^31.
#[derive(Clone)]
pub struct NttOptions<C = Fr> {
    /// log2 of the transform's size; by default that of the row length, which must be a power of
    /// two. Shorter rows are padded with zeros (if the call supports padding).
    pub lg_n: Option<u32>,
    /// Forward or inverse.
    pub direction: Direction,
    /// The coset's generator, not zero; `None` for no coset.
    pub coset: Option<C>,
    /// Element order of the input.
    pub input_order: Order,
    /// Element order of the output.
    pub output_order: Order,
    /// Number of rows, one after another: 1 to 65536.
    pub batch: u32,
    /// How the server checks the result.
    pub verify: Verification,
    /// Reduce elements modulo r or p; otherwise the server refuses elements that are not below it.
    pub reduce: bool,
    /// Time limit of the whole call, retries included; defaults to the client's.
    pub deadline: Option<Duration>,
    /// Called as bytes are sent, then received; both count toward one total.
    pub progress: Option<Progress>,
}

impl<C> Default for NttOptions<C> {
    fn default() -> Self {
        Self {
            lg_n: None,
            direction: Direction::Forward,
            coset: None,
            input_order: Order::Natural,
            output_order: Order::Natural,
            batch: 1,
            verify: Verification::None,
            reduce: false,
            deadline: None,
            progress: None,
        }
    }
}

impl NttOptions {
    /// Coefficients to evaluations.
    pub fn forward() -> Self {
        Self::default()
    }

    /// Evaluations to coefficients.
    pub fn inverse() -> Self {
        Self { direction: Direction::Inverse, ..Self::default() }
    }
}

/// Scalars of an MSM, or elements of an upload.
#[derive(Clone)]
pub enum ScalarInput<'a> {
    /// Borrowed elements, sent as Montgomery limbs without conversion. Each chunk is copied once as
    /// it is sent; the copies are wiped.
    Fr(&'a [Fr]),
    /// Borrowed encoded elements. Each chunk is copied once as it is sent; the copies are wiped.
    Bytes {
        /// Encoding of each element.
        encoding: ScalarEncoding,
        /// The elements, one after another.
        bytes: &'a [u8],
    },
    /// Shared encoded elements, sent without a copy.
    Shared {
        /// Encoding of each element.
        encoding: ScalarEncoding,
        /// The elements, one after another.
        bytes: Bytes,
    },
    /// Borrowed elements, which MSMs and runs read in place if the vector is shared.
    SharedVector(&'a SharedVector),
    /// Borrowed elements of a field of a prime below 2^31, which runs read in place if the vector
    /// is shared.
    SharedVector31(&'a SharedVector<u32>),
    /// A vector on the server, complete or still being uploaded.
    Upload(UploadKey),
    /// A part of a vector on the server: as many elements as the call needs.
    UploadFrom {
        /// The vector.
        id: UploadKey,
        /// Index of the first element.
        first: u64,
    },
}

/// A vector on the server.
pub(crate) struct UploadedScalars {
    pub id: UploadKey,
    /// Index of the first element; `None` for all of the vector.
    pub first: Option<u64>,
}

pub(crate) struct ScalarPayload<'a> {
    pub encoding: ScalarEncoding,
    pub bytes: OutgoingBytes<'a>,
}

impl<'a> ScalarInput<'a> {
    /// `Err` if the elements are on the server.
    pub(crate) fn into_payload(self) -> Result<ScalarPayload<'a>, UploadedScalars> {
        let (encoding, bytes) = match self {
            Self::Fr(scalars) => {
                (ScalarEncoding::Montgomery, OutgoingBytes::Secret(fr_as_bytes(scalars)))
            }
            Self::SharedVector(vector) => (ScalarEncoding::Montgomery, vector.payload()),
            Self::SharedVector31(vector) => (ScalarEncoding::Canonical31, vector.payload()),
            Self::Bytes { encoding, bytes } => (encoding, OutgoingBytes::Secret(bytes)),
            Self::Shared { encoding, bytes } => (encoding, OutgoingBytes::Shared(bytes)),
            Self::Upload(id) => return Err(UploadedScalars { id, first: None }),
            Self::UploadFrom { id, first } => {
                return Err(UploadedScalars { id, first: Some(first) });
            }
        };
        Ok(ScalarPayload { encoding, bytes })
    }
}

/// A vector that a call takes.
pub(crate) struct VectorInput<'a> {
    /// Encoding and number of elements. For a vector on the server, those that the call needs.
    pub spec: InputSpec,
    pub source: ElementSource<'a>,
}

pub(crate) enum ElementSource<'a> {
    /// In the memory of this process, or in a region of which the server knows nothing yet.
    Local(OutgoingBytes<'a>),
    /// Known to the server.
    Named(Source),
}

impl<'a> VectorInput<'a> {
    /// Elements in this process. `field` names them in errors.
    pub fn local(field: &'static str, payload: ScalarPayload<'a>, reduce: bool) -> Result<Self> {
        let ScalarPayload { encoding, bytes } = payload;
        let count = convert::element_count(field, bytes.len(), encoding.width())?;
        let spec = InputSpec { encoding, count, reduce };
        Ok(Self { spec, source: ElementSource::Local(bytes) })
    }

    /// Elements of a vector on the server, from index `offset` on.
    pub fn stored(spec: InputSpec, id: UploadKey, offset: u64) -> Self {
        let stored = v1::StoredVector { upload_id: id.to_bytes(), offset };
        Self { spec, source: ElementSource::Named(Source::Stored(stored)) }
    }

    pub fn payload(&self) -> Option<&OutgoingBytes<'a>> {
        match &self.source {
            ElementSource::Local(bytes) => Some(bytes),
            ElementSource::Named(_) => None,
        }
    }
}

impl<'a> From<&'a [Fr]> for ScalarInput<'a> {
    fn from(scalars: &'a [Fr]) -> Self {
        Self::Fr(scalars)
    }
}

impl<'a> From<&'a Vec<Fr>> for ScalarInput<'a> {
    fn from(scalars: &'a Vec<Fr>) -> Self {
        Self::Fr(scalars)
    }
}

impl<'a, const N: usize> From<&'a [Fr; N]> for ScalarInput<'a> {
    fn from(scalars: &'a [Fr; N]) -> Self {
        Self::Fr(scalars)
    }
}

impl From<Vec<Fr>> for ScalarInput<'_> {
    /// Does not copy; the memory is wiped after the last chunk is sent.
    fn from(scalars: Vec<Fr>) -> Self {
        let bytes = owned_fr(Zeroizing::new(scalars));
        Self::Shared { encoding: ScalarEncoding::Montgomery, bytes }
    }
}

impl From<Arc<[Fr]>> for ScalarInput<'_> {
    /// Does not copy.
    fn from(scalars: Arc<[Fr]>) -> Self {
        Self::Shared { encoding: ScalarEncoding::Montgomery, bytes: owned_fr(scalars) }
    }
}

impl<'a> From<&'a [u32]> for ScalarInput<'a> {
    /// Elements of a field of a prime below 2^31, by their values.
    fn from(words: &'a [u32]) -> Self {
        Self::Bytes { encoding: ScalarEncoding::Canonical31, bytes: bytemuck::cast_slice(words) }
    }
}

impl<'a> From<&'a Vec<u32>> for ScalarInput<'a> {
    /// Elements of a field of a prime below 2^31, by their values.
    fn from(words: &'a Vec<u32>) -> Self {
        words.as_slice().into()
    }
}

impl<'a> From<&'a SharedVector> for ScalarInput<'a> {
    fn from(vector: &'a SharedVector) -> Self {
        Self::SharedVector(vector)
    }
}

impl<'a> From<&'a SharedVector<u32>> for ScalarInput<'a> {
    fn from(vector: &'a SharedVector<u32>) -> Self {
        Self::SharedVector31(vector)
    }
}

impl<'a> From<&'a RunVector> for ScalarInput<'a> {
    fn from(vector: &'a RunVector) -> Self {
        match vector {
            RunVector::Fr(vector) => vector.into(),
            RunVector::Words(vector) => vector.into(),
        }
    }
}

impl From<UploadKey> for ScalarInput<'_> {
    fn from(id: UploadKey) -> Self {
        Self::Upload(id)
    }
}

// Elements may be secret witness data: only their number is printed.
impl std::fmt::Debug for ScalarInput<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fr(scalars) => write!(f, "ScalarInput({} Fr)", scalars.len()),
            Self::Bytes { encoding, bytes } => {
                write!(f, "ScalarInput({encoding:?}, {} bytes)", bytes.len())
            }
            Self::Shared { encoding, bytes } => {
                write!(f, "ScalarInput({encoding:?}, {} bytes)", bytes.len())
            }
            Self::SharedVector(vector) => write!(f, "ScalarInput({vector:?})"),
            Self::SharedVector31(vector) => write!(f, "ScalarInput({vector:?})"),
            Self::Upload(_) | Self::UploadFrom { .. } => f.write_str("ScalarInput(upload)"),
        }
    }
}
