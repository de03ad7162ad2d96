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
    curve::{
        Group,
        points::{PointEncoding, SumEncoding},
        scalars::ScalarEncoding,
    },
    error::FieldProblem,
    wire::v1,
};

pub(crate) fn group(group: Group) -> v1::Group {
    match group {
        Group::G1 => v1::Group::G1,
        Group::G2 => v1::Group::G2,
    }
}

pub(crate) fn point_encoding(encoding: PointEncoding) -> v1::PointEncoding {
    match encoding {
        PointEncoding::Compressed => v1::PointEncoding::Compressed,
        PointEncoding::Uncompressed => v1::PointEncoding::Uncompressed,
        PointEncoding::Montgomery => v1::PointEncoding::Montgomery,
    }
}

pub(crate) fn result_encoding(encoding: SumEncoding) -> v1::ResultEncoding {
    match encoding {
        SumEncoding::Compressed => v1::ResultEncoding::Compressed,
        SumEncoding::Uncompressed => v1::ResultEncoding::Uncompressed,
        SumEncoding::Projective => v1::ResultEncoding::Projective,
    }
}

/// Each encoding and its value on the wire.
const SCALAR_ENCODINGS: [(ScalarEncoding, v1::ScalarEncoding); 12] = [
    (ScalarEncoding::Canonical, v1::ScalarEncoding::Canonical),
    (ScalarEncoding::Montgomery, v1::ScalarEncoding::Montgomery),
    (ScalarEncoding::Unsigned(1), v1::ScalarEncoding::U8),
    (ScalarEncoding::Unsigned(2), v1::ScalarEncoding::U16),
    (ScalarEncoding::Unsigned(4), v1::ScalarEncoding::U32),
    (ScalarEncoding::Unsigned(8), v1::ScalarEncoding::U64),
    (ScalarEncoding::Unsigned(16), v1::ScalarEncoding::U128),
    (ScalarEncoding::Signed(1), v1::ScalarEncoding::I8),
    (ScalarEncoding::Signed(2), v1::ScalarEncoding::I16),
    (ScalarEncoding::Signed(4), v1::ScalarEncoding::I32),
    (ScalarEncoding::Signed(8), v1::ScalarEncoding::I64),
    (ScalarEncoding::Signed(16), v1::ScalarEncoding::I128),
];

/// Errors: `InvalidInput` if no encoding has that width.
pub(crate) fn scalar_encoding(encoding: ScalarEncoding) -> Result<v1::ScalarEncoding> {
    let known = SCALAR_ENCODINGS.iter().find(|(ours, _)| *ours == encoding);
    known.map(|(_, wire)| *wire).ok_or(ClientError::input("encoding", FieldProblem::OutOfRange))
}

pub(crate) fn verify(verify: Verification) -> v1::Verify {
    match verify {
        Verification::None => v1::Verify::None,
        Verification::Full => v1::Verify::Full,
        Verification::Probabilistic => v1::Verify::Probabilistic,
    }
}

pub(crate) fn direction(direction: Direction) -> v1::Direction {
    match direction {
        Direction::Forward => v1::Direction::Forward,
        Direction::Inverse => v1::Direction::Inverse,
    }
}

pub(crate) fn order(order: Order) -> v1::Order {
    match order {
        Order::Natural => v1::Order::Natural,
        Order::BitReversed => v1::Order::BitReversed,
    }
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

pub(crate) fn timing(timing: Option<v1::Timing>) -> Timing {
    let timing = timing.unwrap_or_default();
    Timing {
        receive: Duration::from_micros(timing.receive_us),
        queue: Duration::from_micros(timing.queue_us),
        compute: Duration::from_micros(timing.compute_us),
        verify: Duration::from_micros(timing.verify_us),
        send: Duration::from_micros(timing.send_us),
        ..Timing::default()
    }
}

/// Errors: `InvalidResponse` if the server reports less verification than `asked`.
pub(crate) fn execution(
    execution: Option<v1::Execution>,
    asked: Verification,
) -> Result<Execution> {
    let execution = execution.unwrap_or_default();
    let verified = match execution.verified() {
        v1::Verify::Full => Verification::Full,
        v1::Verify::Probabilistic => Verification::Probabilistic,
        v1::Verify::None | v1::Verify::Unspecified => Verification::None,
    };
    let enough = match asked {
        Verification::None => true,
        Verification::Probabilistic => verified != Verification::None,
        Verification::Full => verified == Verification::Full,
    };
    if !enough {
        let problem =
            format!("requested {asked:?} verification, but the result claims {verified:?}");
        return Err(ClientError::invalid_response(problem));
    }
    let v1::Execution { engine, device, stages, .. } = execution;
    let stage = |stage: v1::Stage| (stage.name, Duration::from_micros(stage.time_us));
    Ok(Execution { engine, device, verified, stages: stages.into_iter().map(stage).collect() })
}

pub(crate) fn bases(bases: v1::Bases) -> Result<BasesInfo> {
    let group = match bases.group() {
        v1::Group::G1 => Group::G1,
        v1::Group::G2 => Group::G2,
        v1::Group::Unspecified => {
            return Err(ClientError::invalid_response("the bases have no group"));
        }
    };
    let id = bases.object_id.as_ref().try_into();
    Ok(BasesInfo {
        id: BasesId(id.map_err(|_| ClientError::invalid_response("the id is not 32 bytes long"))?),
        group,
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
    let known = SCALAR_ENCODINGS.iter().find(|(_, wire)| *wire == vector.encoding());
    let id = vector.upload_id.as_ref().try_into();
    Ok(VectorInfo {
        id: UploadKey(
            id.map_err(|_| ClientError::invalid_response("the id is not 16 bytes long"))?,
        ),
        encoding: known.ok_or(ClientError::invalid_response("the vector has no encoding"))?.0,
        count: vector.count,
    })
}
