//! Parameters and results of calls.

use std::{fmt, marker::PhantomData, str::FromStr, sync::Arc};

use bytes::Bytes;
use capstan_math::{
    curve::{Group, scalars::ScalarEncoding},
    runner::{Execution, Timing},
};
use zeroize::Zeroizing;

use super::{
    CurvePoint,
    error::{ClientError, Result},
};
use crate::objects::held::HeldObject;
use crate::wire::v1::BasesResidency;

/// Declares an id of an object, which errors call by the name of a setting.
macro_rules! content_id {
    ($(#[$doc:meta])* $name:ident, $setting:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub [u8; 32]);

        impl $name {
            pub(crate) fn to_bytes(self) -> Bytes {
                Bytes::copy_from_slice(&self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&hex::encode(self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }

        impl FromStr for $name {
            type Err = ClientError;

            fn from_str(text: &str) -> Result<Self> {
                let mut id = [0; 32];
                hex::decode_to_slice(text, &mut id).map_err(|error| {
                    let problem = format!("expected 64 hex digits: {error}");
                    ClientError::setting($setting, problem)
                })?;
                Ok(Self(id))
            }
        }
    };
}

content_id! {
    /// Content hash that names bases. Displayed as 64 hex digits.
    BasesId, "bases id"
}
content_id! {
    /// Content hash that names a matrix. Displayed as 64 hex digits.
    MatrixId, "matrix id"
}

/// Random id of an upload and of the vector that it becomes. Anyone who knows the id can use the
/// vector, so keep it secret; `Debug` does not print it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct UploadKey(pub [u8; 16]);

impl UploadKey {
    /// Generates an id.
    ///
    /// Errors: `InvalidSetting` if the system provides no randomness.
    pub fn random() -> Result<Self> {
        let mut id = [0; 16];
        getrandom::fill(&mut id)
            .map_err(|error| ClientError::setting("system randomness", error.to_string()))?;
        Ok(Self(id))
    }

    pub(crate) fn to_bytes(self) -> Bytes {
        Bytes::copy_from_slice(&self.0)
    }
}

impl fmt::Debug for UploadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UploadKey(..)")
    }
}

/// Metadata of bases on the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BasesInfo {
    /// Content hash.
    pub id: BasesId,
    /// The points' group.
    pub group: Group,
    /// Number of points.
    pub count: u64,
    /// Bytes used on the server.
    pub bytes: u64,
    /// Number of points at infinity.
    pub infinities: u64,
    /// Whether the bases are stored in the data directory.
    pub persisted: bool,
    /// Label for people.
    pub label: String,
    /// When the server received them, in seconds of Unix time.
    pub created_s: i64,
    /// The devices that hold the bases, from [`Client::list`] and [`Client::stat`]; else empty.
    ///
    /// [`Client::list`]: super::Client::list
    /// [`Client::stat`]: super::Client::stat
    pub residency: Vec<BasesResidency>,
    /// Numbers of devices that did not answer in time: `residency` lacks what they hold. Usually
    /// empty.
    pub unknown_devices: Vec<u32>,
}

/// Bases on the server, or a range of them, of a statically known group. Cheap to clone.
pub struct BasesHandle<A> {
    pub(crate) info: Arc<BasesInfo>,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    /// The whole object, if this process holds it.
    pub(crate) held: Option<Arc<HeldObject>>,
    group: PhantomData<fn() -> A>,
}

impl<A> Clone for BasesHandle<A> {
    fn clone(&self) -> Self {
        let (info, held) = (self.info.clone(), self.held.clone());
        Self { info, offset: self.offset, len: self.len, held, group: PhantomData }
    }
}

impl<A> fmt::Debug for BasesHandle<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BasesHandle({}, {} from {})", self.info.id, self.len, self.offset)
    }
}

impl<A: CurvePoint> BasesHandle<A> {
    /// A handle to all points of `info`, whose group must be `A`'s.
    #[doc(hidden)]
    pub fn new(info: BasesInfo) -> Result<Self> {
        if info.group != A::GROUP {
            let problem = format!("the group is {}, the call requires {}", info.group, A::GROUP);
            return Err(ClientError::setting(format!("bases {}", info.id), problem));
        }
        let len = info.count;
        Ok(Self { info: Arc::new(info), offset: 0, len, held: None, group: PhantomData })
    }

    /// Metadata of the whole object, of which this may be a range.
    pub fn info(&self) -> &BasesInfo {
        &self.info
    }

    /// Id of the whole object.
    pub fn id(&self) -> BasesId {
        self.info.id
    }

    /// Number of points in this range.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the range is empty; sums over it are the point at infinity.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Points `offset..offset + len` of this range; `None` if the range is shorter.
    pub fn slice(&self, offset: u64, len: u64) -> Option<Self> {
        let fits = offset.checked_add(len)? <= self.len;
        fits.then(|| Self { offset: self.offset + offset, len, ..self.clone() })
    }
}

/// A vector on the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VectorInfo {
    /// Id of the vector and its upload.
    pub id: UploadKey,
    /// Encoding of each element.
    pub encoding: ScalarEncoding,
    /// Number of elements.
    pub count: u64,
}

/// Result of an MSM.
#[derive(Debug, Clone)]
pub struct MsmResult<A: CurvePoint> {
    /// One sum per scalar vector.
    pub points: Vec<A::Group>,
    /// Duration of each phase.
    pub timing: Timing,
    /// Engine, device and stages.
    pub execution: Execution,
}

/// Encoded result of an MSM.
#[derive(Debug, Clone)]
pub struct EncodedMsmResult {
    /// One point per scalar vector, one after another, in the requested encoding.
    pub bytes: Bytes,
    /// Duration of each phase.
    pub timing: Timing,
    /// Engine, device and stages.
    pub execution: Execution,
}

/// Encoded result of an NTT.
#[derive(Debug)]
pub struct EncodedNttResult {
    /// The rows, one after another, in the input's encoding. Wiped when dropped.
    pub bytes: Zeroizing<Vec<u8>>,
    /// Timing and execution.
    pub report: NttReport,
}

/// Timing and execution of an NTT.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NttReport {
    /// Duration of each phase.
    pub timing: Timing,
    /// Engine, device and stages.
    pub execution: Execution,
}
