//! Parts of responses that several calls share.

use std::time::Duration;

use bytes::Bytes;
use zeroize::Zeroizing;

use crate::{
    curve::scalars::ScalarEncoding,
    store::StoredBases,
    wire::{
        decode::{UploadId, VectorUploadHeader},
        v1,
    },
};

/// Bytes of a response chunk: see `benches/experiments/transport.md`.
pub const CHUNK_BYTES: usize = 256 << 10;

pub fn as_micros_u64(time: Duration) -> u64 {
    time.as_micros() as u64
}

/// Bytes that are zeroed when the transport drops them.
pub fn zeroized_bytes(bytes: impl Into<Zeroizing<Vec<u8>>>) -> Bytes {
    Bytes::from_owner(ZeroizedBytes(bytes.into()))
}

struct ZeroizedBytes(Zeroizing<Vec<u8>>);

impl AsRef<[u8]> for ZeroizedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

pub fn with_send_time(mut result: v1::NttResult, spent: Duration) -> v1::NttResult {
    if let Some(timing) = &mut result.timing {
        timing.send_us = as_micros_u64(spent);
    }
    result
}

pub fn scalar_encoding(encoding: ScalarEncoding) -> v1::ScalarEncoding {
    // Every encoding on the server was decoded from a message.
    encoding.try_into().unwrap_or_default()
}

pub fn bases(bases: &StoredBases) -> v1::Bases {
    v1::Bases {
        object_id: Bytes::copy_from_slice(&bases.id.0),
        group: v1::Group::from(bases.points.group()).into(),
        count: bases.points.len() as u64,
        bytes: bases.bytes(),
        infinities: bases.infinities,
        persisted: bases.persisted,
        label: bases.label.clone(),
        created_s: bases.created_s,
    }
}

pub fn bases_object(stored: &StoredBases) -> v1::Object {
    v1::Object { kind: Some(v1::object::Kind::Bases(bases(stored))) }
}

pub fn vector_object(vector: &VectorUploadHeader) -> v1::Object {
    let UploadId(id) = vector.id;
    v1::Object {
        kind: Some(v1::object::Kind::Vector(v1::Vector {
            upload_id: Bytes::copy_from_slice(&id),
            encoding: scalar_encoding(vector.encoding) as i32,
            count: vector.count,
        })),
    }
}
