//! Decodes where vectors of a call lie in regions.

use capstan_math::{
    curve::scalars::ScalarEncoding,
    error::{FieldProblem, InputError, Result},
};

use super::{
    RegionId, VectorUploadHeader, decode_id, element_encoding, payload_bytes, scalar_encoding,
    vector_upload,
};
use crate::v1;

/// A region, from byte `offset` on.
#[derive(Clone, Copy)]
pub struct RegionPlace {
    pub id: RegionId,
    pub offset: u64,
}

/// Elements in a region.
#[derive(Clone, Copy)]
pub struct RegionVector {
    pub place: RegionPlace,
    pub encoding: ScalarEncoding,
}

/// A vector that a call receives while it computes.
pub enum StreamedVector {
    /// In chunks.
    Upload(VectorUploadHeader),
    /// The client writes it to a region.
    Region(RegionUploadHeader),
}

/// A vector of `count` elements that a client writes to a region.
#[derive(Clone, Copy)]
pub struct RegionUploadHeader {
    pub vector: RegionVector,
    pub count: u64,
}

/// The vector that is `field` of a header, or the one in a region instead of it.
///
/// Errors: `Invalid` for none and for both.
pub fn streamed_vector(
    field: &'static str,
    upload: Option<v1::VectorUpload>,
    region: Option<v1::RegionUpload>,
) -> Result<StreamedVector> {
    match (upload, region) {
        (Some(upload), None) => Ok(StreamedVector::Upload(vector_upload(upload)?)),
        (None, Some(region)) => Ok(StreamedVector::Region(region_upload(region)?)),
        (None, None) => Err(InputError::field(field, FieldProblem::Missing)),
        (Some(_), Some(_)) => Err(InputError::field(field, FieldProblem::OutOfRange)),
    }
}

pub fn region_upload(upload: v1::RegionUpload) -> Result<RegionUploadHeader> {
    let v1::RegionUpload { region_id, offset, encoding, count } = upload;
    let place = region_place(v1::RegionPlace { region_id, offset })?;
    let encoding = scalar_encoding("encoding", encoding)?;
    payload_bytes(count, encoding.width())?;
    Ok(RegionUploadHeader { vector: RegionVector { place, encoding }, count })
}

pub fn region_place(place: v1::RegionPlace) -> Result<RegionPlace> {
    let unknown = |_| InputError::field("region_id", FieldProblem::UnknownRegion);
    let id = RegionId(decode_id(&place.region_id).map_err(unknown)?);
    Ok(RegionPlace { id, offset: place.offset })
}

/// An input in a region, in any encoding.
pub(super) fn read_vector(region: v1::RegionVector) -> Result<RegionVector> {
    region_vector(region, scalar_encoding)
}

/// An output in a region.
pub(super) fn written_vector(region: v1::RegionVector) -> Result<RegionVector> {
    region_vector(region, element_encoding)
}

fn region_vector(
    region: v1::RegionVector,
    decode_encoding: fn(&'static str, i32) -> Result<ScalarEncoding>,
) -> Result<RegionVector> {
    let v1::RegionVector { region_id, offset, encoding } = region;
    let place = region_place(v1::RegionPlace { region_id, offset })?;
    Ok(RegionVector { place, encoding: decode_encoding("encoding", encoding)? })
}
