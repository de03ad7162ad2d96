//! Decodes and checks points on the host's threads, in pieces between which the job can stop.

use super::ComputeHost;
use crate::{
    curve::{
        Group,
        points::{self, BadElement, CurvePoint, PointEncoding},
    },
    engine::JobControl,
    error::Result,
};

/// Points between two checks of the job: 50 to 70 ms on two cores
/// (`benches/experiments/cpu-engine.md`).
pub fn host_piece_points(group: Group) -> usize {
    match group {
        Group::G1 => 1024,
        Group::G2 => 512,
    }
}

/// The points that `bytes` encodes, or the first bad one.
///
/// Shape: `bytes` holds a whole number of points.
/// Errors: those of `control`.
pub fn decode_points<A: CurvePoint>(
    host: &ComputeHost,
    encoding: PointEncoding,
    bytes: &[u8],
    control: &JobControl,
) -> Result<Result<Vec<A>, BadElement>> {
    let point_bytes = encoding.point_bytes(A::GROUP);
    let mut points = Vec::with_capacity(bytes.len() / point_bytes);
    for piece in bytes.chunks(host_piece_points(A::GROUP) * point_bytes) {
        control.check()?;
        let decode = || points::decode::<A>(encoding, piece);
        // Decoding a point takes far longer than its bytes suggest.
        match host.run_sized(piece.len() << 8, decode) {
            Ok(decoded) => points.extend(decoded),
            Err(bad) => {
                let index = points.len() as u64 + bad.index;
                return Ok(Err(BadElement { index, ..bad }));
            }
        }
    }
    Ok(Ok(points))
}
