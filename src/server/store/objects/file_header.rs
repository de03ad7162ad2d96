//! The header of a file in the data directory.

use bytes::{Buf, BufMut};

use super::object::{ObjectData, ObjectKind, StoredObject};
use crate::{
    curve::{Group, points::PointEncoding},
    sparse::SparseShape,
    wire::decode::{self, ObjectId, PayloadForm, PayloadId},
};

pub const HEADER_BYTES: usize = 256;
/// The header without its checksum.
const CHECKED_BYTES: usize = HEADER_BYTES - blake3::OUT_LEN;
/// What files of version 0.2.0 have instead of a checksum.
const NO_CHECKSUM: [u8; blake3::OUT_LEN] = [0; blake3::OUT_LEN];
const BASES_MAGIC: [u8; 8] = *b"CAPSTAN\x01";
const MATRIX_MAGIC: [u8; 8] = *b"CAPSMTX\x01";
/// Payload encodings: the header stores the index plus one.
const ENCODINGS: [PointEncoding; 3] =
    [PointEncoding::Compressed, PointEncoding::Uncompressed, PointEncoding::Montgomery];
/// Stored instead of an encoding: the payload of the matrix is known.
const MATRIX_PAYLOAD: u8 = 1;
const RESERVED_BYTES: usize = 6;

/// A file's header: magic (8 bytes), content, created (8), payload hash (32), payload form (1),
/// reserved (6), label length (1), label, zeros, checksum (32). The content of bases is their
/// group, 1 or 2 (8), their count (8) and the number of infinities (8); that of a matrix is the
/// number of rows (8), columns (8), terms (8) and coefficients (8). Integers are little-endian.
/// Payload form 0: payload unknown; earlier versions stored its hash only.
///
/// The checksum is BLAKE3 in derive-key mode of the object's id and of the header before it: the
/// name of the file covers the content only, and the header of another file must not be taken for
/// this one's. Version 0.2.0 writes zeros there and does not read the checksum. The payload hash of
/// a file without a checksum is ignored.
pub struct FileHeader {
    pub content: FileContent,
    pub created_s: i64,
    pub payload: Option<PayloadId>,
    pub label: String,
}

/// What the bytes after a header are.
#[derive(Clone, Copy)]
pub enum FileContent {
    Bases(FileOfBases),
    Matrix(SparseShape),
}

#[derive(Clone, Copy)]
pub struct FileOfBases {
    pub group: Group,
    pub count: u64,
    pub infinities: u64,
}

impl FileContent {
    pub fn of(data: &ObjectData) -> Self {
        match data {
            ObjectData::Bases(bases) => Self::Bases(FileOfBases {
                group: bases.points.group(),
                count: bases.points.len() as u64,
                infinities: bases.infinities,
            }),
            ObjectData::Matrix(matrix) => Self::Matrix(matrix.shape()),
        }
    }

    /// Bytes after the header; `None` if their number overflows.
    pub fn bytes(self) -> Option<u64> {
        match self {
            Self::Bases(bases) => bases.count.checked_mul(bases.group.affine_bytes() as u64),
            Self::Matrix(shape) => Some(shape.bytes()),
        }
    }

    fn encode(self, header: &mut Vec<u8>) {
        match self {
            Self::Bases(FileOfBases { group, count, infinities }) => {
                header.put_slice(&BASES_MAGIC);
                header.put_u64_le(match group {
                    Group::G1 => 1,
                    Group::G2 => 2,
                });
                header.put_u64_le(count);
                header.put_u64_le(infinities);
            }
            Self::Matrix(SparseShape { rows, columns, terms, coefficients }) => {
                header.put_slice(&MATRIX_MAGIC);
                for number in [rows, columns, terms, coefficients] {
                    header.put_u64_le(number.into());
                }
            }
        }
    }

    fn decode(kind: ObjectKind, header: &mut &[u8]) -> Option<Self> {
        match kind {
            ObjectKind::Bases => {
                *header = header.strip_prefix(&BASES_MAGIC)?;
                let group = match header.get_u64_le() {
                    1 => Group::G1,
                    2 => Group::G2,
                    _ => return None,
                };
                let (count, infinities) = (header.get_u64_le(), header.get_u64_le());
                // The name of the file covers the points only.
                let is_sound = infinities <= count;
                is_sound.then_some(Self::Bases(FileOfBases { group, count, infinities }))
            }
            ObjectKind::Matrix => {
                *header = header.strip_prefix(&MATRIX_MAGIC)?;
                let [rows, columns, terms, coefficients] = [(); 4].map(|()| header.get_u64_le());
                let shape = decode::matrix_shape(rows, columns, terms, coefficients);
                shape.ok().map(Self::Matrix)
            }
        }
    }

    /// The number that stands for the form of a payload of this content.
    fn encode_form(form: PayloadForm) -> u8 {
        match form {
            PayloadForm::Points(encoding) => {
                let index = ENCODINGS.iter().position(|known| *known == encoding);
                index.map_or(0, |index| index as u8 + 1)
            }
            PayloadForm::Matrix(_) => MATRIX_PAYLOAD,
        }
    }

    fn decode_form(self, number: u8) -> Option<PayloadForm> {
        match self {
            Self::Bases(_) => {
                let encoding = ENCODINGS.get(usize::from(number).checked_sub(1)?)?;
                Some(PayloadForm::Points(*encoding))
            }
            Self::Matrix(shape) => (number == MATRIX_PAYLOAD).then_some(PayloadForm::Matrix(shape)),
        }
    }
}

impl FileHeader {
    pub fn encode(object: &StoredObject) -> Vec<u8> {
        let mut header = Vec::with_capacity(HEADER_BYTES);
        FileContent::of(&object.data).encode(&mut header);
        header.put_i64_le(object.created_s);
        header.put_slice(&object.payload.map_or([0; 32], |payload| payload.hash));
        header.put_u8(object.payload.map_or(0, |payload| FileContent::encode_form(payload.form)));
        header.put_bytes(0, RESERVED_BYTES);
        header.put_u8(object.label.len() as u8);
        header.put_slice(object.label.as_bytes());
        header.resize(CHECKED_BYTES, 0);
        let checksum = checksum(object.id, &header);
        header.put_slice(&checksum);
        header
    }

    /// `None` if this is not the header of the object of `kind` with this id.
    pub fn decode(kind: ObjectKind, id: ObjectId, header: &[u8; HEADER_BYTES]) -> Option<Self> {
        let (mut header, written) = header.split_at(CHECKED_BYTES);
        let has_checksum = written != NO_CHECKSUM;
        if has_checksum && written != checksum(id, header) {
            return None;
        }
        let content = FileContent::decode(kind, &mut header)?;
        let created_s = header.get_i64_le();
        let (&hash, mut header) = header.split_first_chunk()?;
        let payload = match header.get_u8() {
            0 => None,
            number => Some(PayloadId { hash, form: content.decode_form(number)? }),
        };
        let payload = payload.filter(|_| has_checksum);
        header.advance(RESERVED_BYTES);
        let label_bytes = header.get_u8().into();
        let label = String::from_utf8(header.get(..label_bytes)?.to_vec()).ok()?;
        decode::label(&label).ok()?;
        Some(Self { content, created_s, payload, label })
    }
}

fn checksum(id: ObjectId, header: &[u8]) -> [u8; blake3::OUT_LEN] {
    let mut hasher = blake3::Hasher::new_derive_key("capstan v1 file header");
    hasher.update(&id.0).update(header);
    hasher.finalize().into()
}
