//! Decodes messages from clients into checked values. A value of one of these types has passed its
//! checks; payload bytes are checked later, when they are decoded.

mod label;
mod list;
mod ntt;
mod objects;
mod program;
mod regions;
mod residency;
mod run;

pub use self::{
    label::label,
    list::{ListPosition, ListSpec, list_spec},
    ntt::{RequestedNtt, ntt_spec},
    objects::{
        EncodedPoints, ObjectUploadHeader, PayloadForm, PayloadId, UploadContent, bases_upload,
        matrix_shape, matrix_upload, payload_id,
    },
    program::{ProgramId, ProgramName, program},
    regions::{
        RegionPlace, RegionUploadHeader, RegionVector, StreamedVector, region_place,
        streamed_vector,
    },
    residency::{ResidencyAction, ResidencySpec, residency_spec},
    run::{
        EstimateSpec, InputSource, OutputDelivery, ProgramRef, RunInput, RunOutput, RunSpec,
        estimate_spec, run_spec,
    },
};
use bytes::Bytes;
use capstan_math::{
    curve::{
        Group,
        points::{PointEncoding, SumEncoding},
        scalars::ScalarEncoding,
    },
    error::{FieldProblem, InputError, Result},
    program::Verification,
};

use super::{enums::specified, v1};

/// Maximum number of scalar vectors or rows in one request.
pub const BATCH_MAX: u32 = 65_536;

/// Maximum number of streams that carry one upload.
pub const STREAMS_MAX: u32 = 64;

/// The random id that a client gave an upload.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct UploadId(pub [u8; 16]);

/// The random id that the server gave a region.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RegionId(pub [u8; 16]);

/// The content hash that names bases or a matrix.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId(pub [u8; 32]);

impl std::fmt::Debug for UploadId {
    /// Shows the first 4 bytes only, because the id is a capability.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}..", hex::encode(&self.0[..4]))
    }
}

impl std::fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum BasesRef {
    /// A range of stored bases; to their end without a `length`.
    Stored { id: ObjectId, offset: usize, length: Option<usize> },
    /// Points in the request, not checked yet.
    Inline { encoding: PointEncoding, data: Bytes, count: usize },
}

/// An MSM that a request specifies.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestedMsm {
    pub group: Group,
    pub bases: BasesRef,
    /// Number of scalar vectors, each as long as the bases, one after another in the payload.
    pub batch: usize,
    /// Reduce scalars modulo r.
    pub reduce: bool,
    pub result_encoding: SumEncoding,
    pub verify: Verification,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VectorUploadHeader {
    pub id: UploadId,
    pub encoding: ScalarEncoding,
    pub count: u64,
    pub streams: u32,
}

impl VectorUploadHeader {
    /// Bytes of the whole payload; `Invalid` if their number overflows.
    pub fn bytes(&self) -> Result<u64> {
        payload_bytes(self.count, self.encoding.width())
    }
}

fn payload_bytes(count: u64, width: usize) -> Result<u64> {
    at_most("count", count, isize::MAX as u64 / width as u64)?;
    Ok(count * width as u64)
}

pub fn required<T>(field: &'static str, value: Option<T>) -> Result<T> {
    value.ok_or(InputError::field(field, FieldProblem::Missing))
}

fn decode_enum<W, T>(field: &'static str, value: i32) -> Result<T>
where
    W: TryFrom<i32> + Default + PartialEq,
    T: TryFrom<W, Error = FieldProblem>,
{
    let value = specified(value).and_then(T::try_from);
    value.map_err(|problem| InputError::field(field, problem))
}

/// Decodes an id of `N` bytes. An id of another length is `NotFound`, like an unknown one.
fn decode_id<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| InputError::NotFound)
}

pub fn object_id(bytes: &[u8]) -> Result<ObjectId> {
    decode_id(bytes).map(ObjectId)
}

pub fn upload_id(bytes: &[u8]) -> Result<UploadId> {
    decode_id(bytes).map(UploadId)
}

/// Decodes the id of a new upload.
fn new_upload_id(bytes: &[u8]) -> Result<UploadId> {
    exact_bytes("upload_id", bytes).map(UploadId)
}

fn exact_bytes<const N: usize>(field: &'static str, bytes: &[u8]) -> Result<[u8; N]> {
    let problem = FieldProblem::Length { expected: N as u64, got: bytes.len() as u64 };
    bytes.try_into().map_err(|_| InputError::field(field, problem))
}

pub fn group(field: &'static str, value: i32) -> Result<Group> {
    decode_enum::<v1::Group, _>(field, value)
}

pub fn point_encoding(field: &'static str, value: i32) -> Result<PointEncoding> {
    decode_enum::<v1::PointEncoding, _>(field, value)
}

pub fn scalar_encoding(field: &'static str, value: i32) -> Result<ScalarEncoding> {
    decode_enum::<v1::ScalarEncoding, _>(field, value)
}

/// Decodes an encoding of elements, which holds every element of some field.
fn element_encoding(field: &'static str, value: i32) -> Result<ScalarEncoding> {
    let encoding = scalar_encoding(field, value)?;
    let is_integer = encoding.is_integer();
    (!is_integer).then_some(encoding).ok_or(InputError::field(field, FieldProblem::OutOfRange))
}

fn verify(field: &'static str, value: i32) -> Result<Verification> {
    decode_enum::<v1::Verify, _>(field, value)
}

fn at_most(field: &'static str, value: u64, max: u64) -> Result<()> {
    if value > max { Err(InputError::field(field, FieldProblem::TooLarge { max })) } else { Ok(()) }
}

fn batch(value: u32) -> Result<usize> {
    at_most("spec.batch", value.into(), BATCH_MAX.into())?;
    Ok(value.max(1) as usize)
}

fn streams(value: u32) -> Result<u32> {
    at_most("streams", value.into(), STREAMS_MAX.into())?;
    Ok(value.max(1))
}

/// Errors: `Invalid`; `NotFound` for a malformed object id.
pub fn msm_spec(spec: Option<v1::MsmSpec>) -> Result<RequestedMsm> {
    let spec = required("spec", spec)?;
    let group = group("spec.group", spec.group)?;
    let bases = match required("spec.bases", spec.bases)? {
        v1::msm_spec::Bases::Stored(stored) => BasesRef::Stored {
            id: object_id(&stored.object_id)?,
            offset: index("spec.bases.stored.offset", stored.offset)?,
            length: match stored.length {
                0 => None,
                length => Some(index("spec.bases.stored.length", length)?),
            },
        },
        v1::msm_spec::Bases::Inline(inline) => {
            let encoding = point_encoding("spec.bases.inline.encoding", inline.encoding)?;
            let width = encoding.point_bytes(group);
            let count = element_count("spec.bases.inline.data", inline.data.len(), width)?;
            BasesRef::Inline { encoding, data: inline.data, count }
        }
    };
    Ok(RequestedMsm {
        group,
        bases,
        batch: batch(spec.batch)?,
        reduce: spec.reduce,
        result_encoding: decode_enum::<v1::ResultEncoding, _>(
            "spec.result_encoding",
            spec.result_encoding,
        )?,
        verify: verify("spec.verify", spec.verify)?,
    })
}

fn index(field: &'static str, value: u64) -> Result<usize> {
    at_most(field, value, isize::MAX as u64)?;
    Ok(value as usize)
}

/// The number of elements of `width` bytes in `len` bytes; `Invalid` if the last is incomplete.
pub fn element_count(field: &'static str, len: usize, width: usize) -> Result<usize> {
    if !len.is_multiple_of(width) {
        let expected = len.next_multiple_of(width) as u64;
        return Err(InputError::field(field, FieldProblem::Length { expected, got: len as u64 }));
    }
    Ok(len / width)
}

pub fn vector_upload(upload: v1::VectorUpload) -> Result<VectorUploadHeader> {
    let upload = VectorUploadHeader {
        id: new_upload_id(&upload.upload_id)?,
        encoding: scalar_encoding("encoding", upload.encoding)?,
        count: upload.count,
        streams: streams(upload.streams)?,
    };
    upload.bytes()?;
    Ok(upload)
}
