//! Parts of responses that several calls share.

use std::time::Duration;

use bytes::Bytes;

use crate::grpc::devices::residency_snapshot::ResidencySnapshot;
use crate::{
    curve::scalars::ScalarEncoding,
    engine::{DeviceResidency, ExecutedBy, StageTime},
    jobs::JobReport,
    sparse::SparseShape,
    store::{ObjectData, StoredObject, StoredPoints},
    wire::{
        decode::{UploadId, VectorUploadHeader},
        v1::{self, object::Kind},
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

pub fn object_kind(stored: &StoredObject) -> Kind {
    let object_id = Bytes::copy_from_slice(&stored.id.0);
    let (bytes, label) = (stored.bytes(), stored.label.clone());
    let &StoredObject { persisted, created_s, .. } = stored;
    match &stored.data {
        ObjectData::Bases(StoredPoints { points, infinities }) => Kind::Bases(v1::Bases {
            object_id,
            group: v1::Group::from(points.group()).into(),
            count: points.len() as u64,
            bytes,
            infinities: *infinities,
            persisted,
            label,
            created_s,
            residency: Vec::new(),
        }),
        ObjectData::Matrix(matrix) => {
            let SparseShape { rows, columns, terms, coefficients } = matrix.shape();
            Kind::Matrix(v1::Matrix {
                object_id,
                rows: rows.into(),
                columns: columns.into(),
                terms: terms.into(),
                coefficients: coefficients.into(),
                bytes,
                persisted,
                label,
                created_s,
            })
        }
    }
}

/// An object with the devices that hold it.
pub fn held_object(stored: &StoredObject, held: &ResidencySnapshot) -> Kind {
    match (object_kind(stored), &stored.data) {
        (Kind::Bases(bases), ObjectData::Bases(StoredPoints { points, .. })) => {
            let residency = held.of(points).map(residency).collect();
            Kind::Bases(v1::Bases { residency, ..bases })
        }
        (other, _) => other,
    }
}

pub fn residency(held: DeviceResidency) -> v1::BasesResidency {
    let DeviceResidency { device, bytes, tables, pinned } = held;
    v1::BasesResidency { device, bytes, tables, pinned }
}

pub fn object(stored: &StoredObject) -> v1::Object {
    v1::Object { kind: Some(object_kind(stored)) }
}

pub fn vector_object(vector: &VectorUploadHeader) -> v1::Object {
    let UploadId(id) = vector.id;
    v1::Object {
        kind: Some(Kind::Vector(v1::Vector {
            upload_id: Bytes::copy_from_slice(&id),
            encoding: scalar_encoding(vector.encoding) as i32,
            count: vector.count,
        })),
    }
}
