//! Headers of uploads of bases and matrices, and what identifies their payloads.

use capstan_math::{
    curve::{Group, points::PointEncoding},
    error::{FieldProblem, InputError, Result},
    sparse::SparseShape,
};

use super::{
    UploadId, at_most, decode_id, exact_bytes, group, label, new_upload_id, payload_bytes,
    point_encoding, streams,
};
use crate::v1;

/// Identifies a payload of bases or of a matrix. In another form, the same bytes are another object
/// or invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PayloadId {
    /// BLAKE3 hash of the bytes.
    pub hash: [u8; 32],
    pub form: PayloadForm,
}

/// What the bytes of a payload are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PayloadForm {
    Points(PointEncoding),
    Matrix(SparseShape),
}

/// The header of an upload of an object that is named by its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectUploadHeader {
    pub id: UploadId,
    pub content: UploadContent,
    pub streams: u32,
    /// BLAKE3 hash of the payload, if the client set it.
    pub payload_hash: Option<[u8; 32]>,
    pub persist: bool,
    pub label: String,
}

/// What an upload becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadContent {
    Bases(EncodedPoints),
    Matrix(SparseShape),
}

/// Points of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncodedPoints {
    pub group: Group,
    pub encoding: PointEncoding,
    pub count: u64,
}

impl ObjectUploadHeader {
    pub fn payload(&self) -> Option<PayloadId> {
        self.payload_hash.map(|hash| PayloadId { hash, form: self.content.form() })
    }
}

impl UploadContent {
    pub fn form(self) -> PayloadForm {
        match self {
            Self::Bases(points) => PayloadForm::Points(points.encoding),
            Self::Matrix(shape) => PayloadForm::Matrix(shape),
        }
    }

    /// Bytes of the whole payload; `Invalid` if their number overflows.
    pub fn payload_bytes(self) -> Result<u64> {
        match self {
            Self::Bases(EncodedPoints { group, encoding, count }) => {
                payload_bytes(count, encoding.point_bytes(group))
            }
            Self::Matrix(shape) => Ok(shape.bytes()),
        }
    }

    /// Bytes of the stored object; `Invalid` if their number overflows.
    pub fn object_bytes(self) -> Result<u64> {
        match self {
            Self::Bases(points) => payload_bytes(points.count, points.group.affine_bytes()),
            Self::Matrix(shape) => Ok(shape.bytes()),
        }
    }
}

/// Decodes the identity of a payload that was uploaded before.
///
/// Errors: `Invalid` for its encoding; `NotFound` if the hash is malformed.
pub fn payload_id(payload: &v1::Payload) -> Result<PayloadId> {
    let encoding = point_encoding("payload.encoding", payload.encoding)?;
    let form = PayloadForm::Points(encoding);
    decode_id(&payload.hash).map(|hash| PayloadId { hash, form })
}

pub fn bases_upload(upload: v1::BasesUpload) -> Result<ObjectUploadHeader> {
    let payload_hash = payload_hash(&upload.payload_hash)?;
    label(&upload.label)?;
    if upload.count == 0 {
        return Err(InputError::field("count", FieldProblem::Zero));
    }
    let id = new_upload_id(&upload.upload_id)?;
    let content = UploadContent::Bases(EncodedPoints {
        group: group("group", upload.group)?,
        encoding: point_encoding("encoding", upload.encoding)?,
        count: upload.count,
    });
    let streams = streams(upload.streams)?;
    content.payload_bytes()?;
    content.object_bytes()?;
    let (persist, label) = (upload.persist, upload.label);
    Ok(ObjectUploadHeader { id, content, streams, payload_hash, persist, label })
}

pub fn matrix_upload(upload: v1::MatrixUpload) -> Result<ObjectUploadHeader> {
    let payload_hash = payload_hash(&upload.payload_hash)?;
    label(&upload.label)?;
    let v1::MatrixUpload { rows, columns, terms, coefficients, .. } = upload;
    let shape = matrix_shape(rows, columns, terms, coefficients)?;
    let id = new_upload_id(&upload.upload_id)?;
    let content = UploadContent::Matrix(shape);
    let streams = streams(upload.streams)?;
    let (persist, label) = (upload.persist, upload.label);
    Ok(ObjectUploadHeader { id, content, streams, payload_hash, persist, label })
}

/// Checks the shape of a stored matrix.
///
/// Errors: `Invalid` for a number that has more than 32 bits, and for no rows or no columns.
pub fn matrix_shape(rows: u64, columns: u64, terms: u64, coefficients: u64) -> Result<SparseShape> {
    let number = |field, number: u64| {
        at_most(field, number, u32::MAX.into())?;
        Ok(number as u32)
    };
    let at_least_one = |field, count| match count {
        0 => Err(InputError::field(field, FieldProblem::Zero)),
        _ => number(field, count),
    };
    Ok(SparseShape {
        rows: at_least_one("rows", rows)?,
        columns: at_least_one("columns", columns)?,
        terms: number("terms", terms)?,
        coefficients: number("coefficients", coefficients)?,
    })
}

fn payload_hash(bytes: &[u8]) -> Result<Option<[u8; 32]>> {
    match bytes.len() {
        0 => Ok(None),
        _ => exact_bytes("payload_hash", bytes).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_have_a_row_and_a_column_and_numbers_of_32_bits() {
        let max = u64::from(u32::MAX);
        let largest = matrix_shape(max, max, max, max).unwrap();
        assert_eq!(largest.bytes(), max * (32 + 8 + 4));
        let refused = |field, problem| Err(InputError::field(field, problem));
        assert_eq!(matrix_shape(0, 1, 0, 0), refused("rows", FieldProblem::Zero));
        assert_eq!(matrix_shape(1, 0, 0, 0), refused("columns", FieldProblem::Zero));
        let too_large = FieldProblem::TooLarge { max };
        assert_eq!(matrix_shape(max + 1, 1, 0, 0), refused("rows", too_large));
        assert_eq!(matrix_shape(1, max + 1, 0, 0), refused("columns", too_large));
        assert_eq!(matrix_shape(1, 1, max + 1, 0), refused("terms", too_large));
        assert_eq!(matrix_shape(1, 1, 0, u64::MAX), refused("coefficients", too_large));
    }
}
