//! What callers may choose, and the inputs they hand over.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

use super::{
    payload::{self, Payload},
    types::{Direction, Order, UploadId, Verify},
};
use crate::curve::{Fr, layout::fr_as_bytes, points::ResultEncoding, scalars::ScalarEncoding};

/// Called from time to time with the payload bytes handed to the transport (or received) and the
/// bytes there are in all. Must be quick: it runs between chunks.
pub type Progress = Arc<dyn Fn(u64, u64) + Send + Sync>;

/// How to put bases.
#[derive(Clone, Default)]
pub struct PutOptions {
    /// What people call these bases: at most 128 bytes of printable text.
    pub label: String,
    /// Keep the bases in the server's data directory, so that they survive a restart.
    pub persist: bool,
    /// Told of bytes sent.
    pub progress: Option<Progress>,
    /// For the whole call, retries included; absent: the client's.
    pub deadline: Option<Duration>,
}

/// How to compute an MSM.
#[derive(Clone)]
pub struct MsmOptions {
    /// Scalar vectors, one after another, each as long as the bases: 1 to 65536.
    pub batch: u32,
    /// `None`, `Full` or `Probabilistic`.
    pub verify: Verify,
    /// How sums travel; matters to [`super::Client::msm_id`], which hands on the bytes. Projective
    /// costs the server least.
    pub result_encoding: ResultEncoding,
    /// Take 32-byte scalars of r or more modulo r, where otherwise they are refused.
    pub reduce: bool,
    /// For the whole call, retries included; absent: the client's.
    pub deadline: Option<Duration>,
    /// Told of bytes sent.
    pub progress: Option<Progress>,
}

impl Default for MsmOptions {
    fn default() -> Self {
        Self {
            batch: 1,
            verify: Verify::None,
            result_encoding: ResultEncoding::Projective,
            reduce: false,
            deadline: None,
            progress: None,
        }
    }
}

/// How to transform. The default is a forward transform of one row in natural order, no coset.
#[derive(Clone)]
pub struct NttOptions {
    /// log2 of the transform's size. Absent: the length of a row, which must be a power of two.
    /// More than a row holds: each row is filled up with zeros (where the call allows it).
    pub lg_n: Option<u32>,
    /// Which way.
    pub direction: Direction,
    /// The coset's generator, not zero; absent: no coset.
    pub coset: Option<Fr>,
    /// How the input stands.
    pub input_order: Order,
    /// How the output is wanted.
    pub output_order: Order,
    /// Rows, one after another: 1 to 65536.
    pub batch: u32,
    /// `None`, `Full` or `Probabilistic`.
    pub verify: Verify,
    /// Take elements of r or more modulo r, where otherwise they are refused.
    pub reduce: bool,
    /// For the whole call, retries included; absent: the client's.
    pub deadline: Option<Duration>,
    /// Told of bytes sent, then of bytes received, in one count.
    pub progress: Option<Progress>,
}

impl Default for NttOptions {
    fn default() -> Self {
        Self {
            lg_n: None,
            direction: Direction::Forward,
            coset: None,
            input_order: Order::Natural,
            output_order: Order::Natural,
            batch: 1,
            verify: Verify::None,
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

/// Scalars for an MSM, or elements for an upload.
#[derive(Clone)]
pub enum ScalarInput<'a> {
    /// Sent as Montgomery limbs from the caller's memory: each chunk is copied once as it is sent,
    /// and the copy wiped. Nothing is converted.
    Fr(&'a [Fr]),
    /// Encoded elements, borrowed: copied and wiped chunk by chunk likewise.
    Bytes {
        /// How each element is written.
        encoding: ScalarEncoding,
        /// The elements, one after another.
        bytes: &'a [u8],
    },
    /// Encoded elements, shared: sent without a copy of ours.
    Shared {
        /// How each element is written.
        encoding: ScalarEncoding,
        /// The elements, one after another.
        bytes: Bytes,
    },
    /// A vector that was put before, or that is still arriving.
    Upload(UploadId),
}

impl<'a> ScalarInput<'a> {
    /// The encoding and the bytes; `Err` with the id where the elements are on the server.
    pub(crate) fn into_payload(self) -> Result<(ScalarEncoding, Payload<'a>), UploadId> {
        match self {
            Self::Fr(scalars) => {
                Ok((ScalarEncoding::Montgomery, Payload::secret(fr_as_bytes(scalars))))
            }
            Self::Bytes { encoding, bytes } => Ok((encoding, Payload::secret(bytes))),
            Self::Shared { encoding, bytes } => Ok((encoding, Payload::Shared(bytes))),
            Self::Upload(id) => Err(id),
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
    /// Without a copy; the memory is wiped when the last chunk has gone.
    fn from(scalars: Vec<Fr>) -> Self {
        Self::Shared { encoding: ScalarEncoding::Montgomery, bytes: payload::owned_fr(scalars) }
    }
}

impl From<Arc<[Fr]>> for ScalarInput<'_> {
    /// Without a copy.
    fn from(scalars: Arc<[Fr]>) -> Self {
        Self::Shared { encoding: ScalarEncoding::Montgomery, bytes: payload::shared_fr(scalars) }
    }
}

impl From<UploadId> for ScalarInput<'_> {
    fn from(id: UploadId) -> Self {
        Self::Upload(id)
    }
}

// Elements may be witness: nothing of them is printed.
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
            Self::Upload(_) => f.write_str("ScalarInput(upload)"),
        }
    }
}
