//! Conversion from and to messages.

use std::time::Duration;

use super::{
    error::{ClientError, Result},
    types::{
        BasesId, BasesInfo, Direction, Execution, Order, Timing, UploadKey, VectorInfo,
        Verification,
    },
};
use crate::{
    curve::scalars::ScalarEncoding,
    error::FieldProblem,
    wire::{enums::counterparts, v1},
};

counterparts! {
    Verification, Verify: None, Full, Probabilistic;
    Direction, Direction: Forward, Inverse;
    Order, Order: Natural, BitReversed;
}

/// Errors: `InvalidInput` if no encoding has that width.
pub(crate) fn scalar_encoding(encoding: ScalarEncoding) -> Result<i32> {
    let wire = v1::ScalarEncoding::try_from(encoding);
    wire.map(i32::from).map_err(|problem| ClientError::input("encoding", problem))
}

/// Number of elements in `bytes` bytes.
///
/// Errors: `InvalidInput` if it is not a whole number.
pub(crate) fn element_count(field: &'static str, bytes: u64, width: usize) -> Result<u64> {
    let width = width as u64;
    if width == 0 || !bytes.is_multiple_of(width) {
        let whole = bytes.checked_div(width).unwrap_or(0) * width;
        return Err(ClientError::length(field, whole, bytes));
    }
    Ok(bytes / width)
}

/// The server's phases and what the client measured. Without an `upload` time, the upload takes the
/// part of `total` that the server's phases do not explain.
pub(crate) fn timing(
    server: Option<v1::Timing>,
    upload: Option<Duration>,
    download: Duration,
    total: Duration,
) -> Timing {
    let server = server.unwrap_or_default();
    let mut timing = Timing {
        receive: Duration::from_micros(server.receive_us),
        queue: Duration::from_micros(server.queue_us),
        compute: Duration::from_micros(server.compute_us),
        verify: Duration::from_micros(server.verify_us),
        send: Duration::from_micros(server.send_us),
        download,
        total,
        ..Timing::default()
    };
    let phases = timing.receive + timing.queue + timing.compute + timing.verify + timing.send;
    timing.upload = upload.unwrap_or(total.saturating_sub(phases));
    timing
}

/// Errors: `InvalidResponse` if the server reports less verification than `requested`.
pub(crate) fn execution(
    execution: Option<v1::Execution>,
    requested: Verification,
) -> Result<Execution> {
    let execution = execution.unwrap_or_default();
    let verified = Verification::try_from(execution.verified()).unwrap_or(Verification::None);
    let is_enough = match requested {
        Verification::None => true,
        Verification::Probabilistic => verified != Verification::None,
        Verification::Full => verified == Verification::Full,
    };
    if !is_enough {
        let problem =
            format!("requested {requested:?} verification, but the result claims {verified:?}");
        return Err(ClientError::invalid_response(problem));
    }
    let v1::Execution { engine, device, stages, .. } = execution;
    let stage = |stage: v1::Stage| (stage.name, Duration::from_micros(stage.time_us));
    Ok(Execution { engine, device, verified, stages: stages.into_iter().map(stage).collect() })
}

pub(crate) fn bases(bases: v1::Bases) -> Result<BasesInfo> {
    let group = bases.group().try_into();
    let id = bases.object_id.as_ref().try_into();
    Ok(BasesInfo {
        id: BasesId(id.map_err(|_| ClientError::invalid_response("the id is not 32 bytes long"))?),
        group: group.map_err(|_| ClientError::invalid_response("the bases have no group"))?,
        count: bases.count,
        bytes: bases.bytes,
        infinities: bases.infinities,
        persisted: bases.persisted,
        label: bases.label,
        created_s: bases.created_s,
    })
}

pub(crate) fn object_bases(object: Option<v1::Object>) -> Result<BasesInfo> {
    match object.and_then(|object| object.kind) {
        Some(v1::object::Kind::Bases(found)) => bases(found),
        _ => Err(ClientError::invalid_response("the object is not bases")),
    }
}

pub(crate) fn object_vector(object: Option<v1::Object>) -> Result<VectorInfo> {
    let Some(v1::object::Kind::Vector(vector)) = object.and_then(|object| object.kind) else {
        return Err(ClientError::invalid_response("the object is not a vector"));
    };
    let encoding = vector.encoding().try_into();
    let id = vector.upload_id.as_ref().try_into();
    Ok(VectorInfo {
        id: UploadKey(
            id.map_err(|_| ClientError::invalid_response("the id is not 16 bytes long"))?,
        ),
        encoding: encoding
            .map_err(|_| ClientError::invalid_response("the vector has no encoding"))?,
        count: vector.count,
    })
}
