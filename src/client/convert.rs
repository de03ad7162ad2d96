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

pub(crate) fn scalar_encoding(encoding: ScalarEncoding) -> Result<i32> {
    let wire = v1::ScalarEncoding::try_from(encoding);
    wire.map(i32::from).map_err(|problem| ClientError::input("encoding", problem))
}

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
    let phases =
        [server.receive_us, server.queue_us, server.compute_us, server.verify_us, server.send_us];
    let phases @ [receive, queue, compute, verify, send] = phases.map(Duration::from_micros);
    let upload = upload.unwrap_or(total.saturating_sub(phases.iter().sum()));
    Timing { receive, queue, compute, verify, send, upload, download, total }
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
    Ok(BasesInfo {
        id: BasesId(valid(bases.object_id.as_ref().try_into(), "the id is not 32 bytes long")?),
        group: valid(bases.group().try_into(), "the bases have no group")?,
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
    Ok(VectorInfo {
        id: UploadKey(valid(vector.upload_id.as_ref().try_into(), "the id is not 16 bytes long")?),
        encoding: valid(vector.encoding().try_into(), "the vector has no encoding")?,
        count: vector.count,
    })
}

fn valid<T, E>(converted: Result<T, E>, problem: &str) -> Result<T> {
    converted.map_err(|_| ClientError::invalid_response(problem))
}
