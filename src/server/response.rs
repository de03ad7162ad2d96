//! Parts of responses that several calls share.

use std::time::Duration;

use bytes::Bytes;

use crate::{
    curve::scalars::ScalarEncoding,
    engine::{ExecutedBy, StageTime},
    jobs::JobReport,
    store::StoredBases,
    wire::{
        decode::{UploadId, VectorUploadHeader},
        v1,
    },
};

/// Bytes of a response chunk; larger ones are no faster (`benches/experiments/transport.md`).
pub const CHUNK_BYTES: usize = 256 << 10;

pub fn as_micros_u64(time: Duration) -> u64 {
    time.as_micros() as u64
}

pub fn execution(report: JobReport) -> v1::Execution {
    let ExecutedBy { engine, device, stages, .. } = report.executor;
    let stage = |stage: StageTime| v1::Stage {
        name: stage.name.into(),
        time_us: as_micros_u64(stage.duration),
    };
    let verified = v1::Verify::from(report.verify).into();
    let stages = stages.into_iter().map(stage).collect();
    v1::Execution { engine: engine.into(), device, verified, stages }
}

pub fn with_send_time(timing: Option<v1::Timing>, spent: Duration) -> Option<v1::Timing> {
    timing.map(|timing| v1::Timing { send_us: as_micros_u64(spent), ..timing })
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
