//! What calls take and give, in terms of the field.

use std::{fmt, marker::PhantomData, str::FromStr, sync::Arc, time::Duration};

use super::{
    CurvePoint,
    error::{Error, Result},
};
use crate::curve::{Group, scalars::ScalarEncoding};

/// Names bases by their content. Written as 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BasesId(pub [u8; 32]);

impl fmt::Display for BasesId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for BasesId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BasesId({self})")
    }
}

impl FromStr for BasesId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut id = [0; 32];
        hex::decode_to_slice(text, &mut id).map_err(|error| Error::Setting {
            what: "bases id".into(),
            problem: format!("64 hex digits are needed: {error}"),
        })?;
        Ok(Self(id))
    }
}

/// Names an upload, and the vector that it becomes. Whoever knows it may use the vector: keep it to
/// yourself. `Debug` prints nothing of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct UploadId(pub [u8; 16]);

impl UploadId {
    /// A new one.
    ///
    /// Errors: `Setting` where the system gives no randomness.
    pub fn random() -> Result<Self> {
        let mut id = [0; 16];
        getrandom::fill(&mut id).map_err(|error| Error::Setting {
            what: "randomness of the system".into(),
            problem: error.to_string(),
        })?;
        Ok(Self(id))
    }
}

impl fmt::Debug for UploadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UploadId(..)")
    }
}

/// What the server says of bases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BasesInfo {
    /// Their name.
    pub id: BasesId,
    /// The points' group.
    pub group: Group,
    /// Points.
    pub count: u64,
    /// Bytes that they take on the server.
    pub bytes: u64,
    /// How many of the points are infinity.
    pub infinities: u64,
    /// Kept in the data directory.
    pub persisted: bool,
    /// What people call them.
    pub label: String,
    /// Since when the server holds them, in seconds of Unix time.
    pub created_s: i64,
}

/// Bases on the server, or a range of them, of a group known when compiled. Cheap to clone.
pub struct BasesHandle<A> {
    pub(crate) info: Arc<BasesInfo>,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    group: PhantomData<fn() -> A>,
}

impl<A> Clone for BasesHandle<A> {
    fn clone(&self) -> Self {
        Self { info: self.info.clone(), offset: self.offset, len: self.len, group: PhantomData }
    }
}

impl<A> fmt::Debug for BasesHandle<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BasesHandle({}, {} from {})", self.info.id, self.len, self.offset)
    }
}

impl<A: CurvePoint> BasesHandle<A> {
    /// All of `info`'s points; the group must be `A`'s.
    pub(crate) fn new(info: BasesInfo) -> Result<Self> {
        if info.group != A::GROUP {
            let problem = format!("is of {}, the call needs {}", info.group, A::GROUP);
            return Err(Error::Setting { what: format!("bases {}", info.id), problem });
        }
        let len = info.count;
        Ok(Self { info: Arc::new(info), offset: 0, len, group: PhantomData })
    }

    /// What the server said of the whole object.
    pub fn info(&self) -> &BasesInfo {
        &self.info
    }

    /// The object's name.
    pub fn id(&self) -> BasesId {
        self.info.id
    }

    /// Points in this range.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True where the range is empty: sums over it are infinity.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Points `offset..offset + len` of this range; `None` where it does not reach that far.
    pub fn slice(&self, offset: u64, len: u64) -> Option<Self> {
        let fits = offset.checked_add(len)? <= self.len;
        fits.then(|| Self { offset: self.offset + offset, len, ..self.clone() })
    }
}

/// A vector on the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VectorInfo {
    /// Its name.
    pub id: UploadId,
    /// How each element is written.
    pub encoding: ScalarEncoding,
    /// Elements.
    pub count: u64,
}

/// Which way to transform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direction {
    /// Coefficients to evaluations.
    #[default]
    Forward,
    /// Evaluations to coefficients, 1/n included.
    Inverse,
}

/// In which order the elements of a row stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Element i is at i.
    #[default]
    Natural,
    /// Element i is at the reverse of i's lg_n bits.
    BitReversed,
}

/// How a result is checked before the server returns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verify {
    /// Not at all.
    #[default]
    None,
    /// Recomputed by arkworks on other threads.
    Full,
    /// An NTT: evaluated at a secret random point. MSMs: by one more, of a secret random
    /// combination of all scalar vectors.
    Probabilistic,
}

/// How long each phase took. Phases of one job may overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timing {
    /// Server: from the header to the last payload byte.
    pub receive: Duration,
    /// Server: waiting for a worker with data at hand.
    pub queue: Duration,
    /// Server: decoding, computing.
    pub compute: Duration,
    /// Server: checking the result.
    pub verify: Duration,
    /// Server: encoding the result and handing it to the transport.
    pub send: Duration,
    /// Client: from the first payload byte until the last was handed to the transport. Of a payload
    /// in one message: what the server's phases leave of the whole call.
    pub upload: Duration,
    /// Client: reading the result.
    pub download: Duration,
    /// Client: the whole call, retries included.
    pub total: Duration,
}

impl Timing {
    /// What the server's phases leave of the whole call.
    pub(crate) fn rest(&self) -> Duration {
        let server = self.receive + self.queue + self.compute + self.verify + self.send;
        self.total.saturating_sub(server)
    }
}

/// Who did the work.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Execution {
    /// Engine, such as `cpu`.
    pub engine: String,
    /// Device and method, such as `2 threads, blst`.
    pub device: String,
    /// The check that the result passed.
    pub verified: Verify,
    /// Where the device's time went, in order; empty where the engine does not tell.
    pub stages: Vec<(String, Duration)>,
}

/// What an MSM gave.
#[derive(Debug, Clone)]
pub struct Msm<A: CurvePoint> {
    /// One sum a scalar vector.
    pub points: Vec<A::Group>,
    /// How long it took.
    pub timing: Timing,
    /// Who did it.
    pub execution: Execution,
}

/// What an MSM gave, as the server wrote it.
#[derive(Debug, Clone)]
pub struct MsmBytes {
    /// One point a scalar vector, one after another, in the encoding asked for.
    pub bytes: bytes::Bytes,
    /// How long it took.
    pub timing: Timing,
    /// Who did it.
    pub execution: Execution,
}

/// What an NTT gave, but for the elements.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NttReport {
    /// How long it took.
    pub timing: Timing,
    /// Who did it.
    pub execution: Execution,
}
