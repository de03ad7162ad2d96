//! Taking in bases: decoded and checked as they arrive, named at the end.

use std::{ops::Range, sync::Arc};

use tracing::{Span, debug_span, field::Empty};

use super::{Host, Wake, Work, payload::Payload};
use crate::{
    buffer::Arrival,
    curve::points::{self, Bases, CurvePoint, PointEncoding, PointSlice},
    engine::{Control, PointChecker},
    error::{Error, Result},
};

/// Points that one step checks on the host: about a fifth of a second on two cores.
const PIECE: usize = 4096;

/// What was taken in.
pub struct Imported {
    /// The points, checked.
    pub bases: Bases,
    /// Their content's hash.
    pub id: [u8; 32],
    /// How many of them are infinity.
    pub infinities: u64,
    /// BLAKE3 of the payload.
    pub payload_hash: [u8; 32],
}

/// The work as the scheduler runs it.
pub struct ImportWork<A> {
    host: Arc<Host>,
    payload: Payload,
    encoding: PointEncoding,
    count: usize,
    promised: Option<[u8; 32]>,
    hasher: blake3::Hasher,
    points: Vec<A>,
}

impl<A: CurvePoint> ImportWork<A> {
    /// Follows `arrival`, which holds `count` points; where a hash was promised, the payload must
    /// have it.
    pub fn new(
        host: Arc<Host>,
        (encoding, count): (PointEncoding, usize),
        promised: Option<[u8; 32]>,
        arrival: Arc<Arrival>,
        wake: Wake,
    ) -> Self {
        Self {
            host,
            payload: Payload::new(arrival, wake),
            encoding,
            count,
            promised,
            hasher: blake3::Hasher::new(),
            points: Vec::with_capacity(count),
        }
    }

    /// Who checks, if not the host, and how many points at a time.
    fn checker(&self) -> Option<(&dyn PointChecker, usize)> {
        let checker = self.host.engine.point_checker()?;
        Some((checker, checker.piece(A::GROUP, self.encoding, self.count)?))
    }

    fn piece(&self) -> Range<u64> {
        let width = self.encoding.point_bytes(A::GROUP) as u64;
        let piece = self.checker().map_or(PIECE, |(_, piece)| piece);
        let end = (self.points.len() + piece).min(self.count);
        self.points.len() as u64 * width..end as u64 * width
    }

    /// Adds the points of `bytes`, checked.
    fn read(&mut self, bytes: &[u8]) -> Result<Result<(), points::Bad>> {
        if self.checker().is_none() {
            // A point takes far longer than its bytes suggest.
            let decode = || points::decode::<A>(self.encoding, bytes);
            let decoded = self.host.on_pool(bytes.len() << 8, decode);
            return Ok(decoded.map(|points| self.points.extend(points)));
        }
        let first = self.points.len();
        self.points.resize(first + bytes.len() / self.encoding.point_bytes(A::GROUP), A::zero());
        let out = A::points_mut(&mut self.points[first..]);
        let checker = self.host.engine.point_checker().expect("there, as asked above");
        checker.check(self.encoding, bytes, out)
    }

    fn finish(&mut self) -> Result<Imported> {
        let payload_hash = self.hasher.finalize().into();
        if self.promised.is_some_and(|promised| promised != payload_hash) {
            return Err(Error::HashMismatch);
        }
        let points = std::mem::take(&mut self.points);
        let bytes = points.len() * A::GROUP.affine_bytes();
        let id = self.host.on_pool(bytes, || points::id_of(&points));
        let infinities = points.iter().filter(|point| point.is_zero()).count() as u64;
        let bases = A::bases(PointSlice::new(Arc::new(points)));
        Ok(Imported { bases, id, infinities, payload_hash })
    }
}

impl<A: CurvePoint> Work for ImportWork<A> {
    type Output = Imported;

    fn span(&self, id: u64) -> Span {
        let (op, group, n) = ("import", A::GROUP.name(), self.count);
        debug_span!("job", id, op, group, n, queue_us = Empty, run_us = Empty)
    }

    fn ready(&self) -> bool {
        self.payload.ready(self.piece())
    }

    fn step(&mut self, _: &Control) -> Result<Option<Imported>> {
        let Some(bytes) = self.payload.bytes(self.piece())? else {
            return Ok(None);
        };
        self.host.on_pool(bytes.len(), || self.hasher.update_rayon(&bytes));
        let first = self.points.len();
        let checked = self.read(&bytes)?;
        let at = |bad: points::Bad| Error::element("points", first as u64 + bad.index, bad.problem);
        checked.map_err(at)?;
        (self.points.len() == self.count).then(|| self.finish()).transpose()
    }
}
