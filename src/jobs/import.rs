//! Taking in bases: decoded and checked as they arrive, named at the end.

use std::{ops::Range, sync::Arc};

use zeroize::Zeroizing;

use super::{Host, Wake, Work, payload::Payload};
use crate::{
    buffer::Arrival,
    curve::points::{self, Bases, CurvePoint, PointEncoding, PointSlice},
    engine::Control,
    error::{Error, Result},
};

/// Points that one step checks: about a fifth of a second on two cores.
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

    fn piece(&self) -> Range<u64> {
        let width = self.encoding.point_bytes(A::GROUP) as u64;
        let end = (self.points.len() + PIECE).min(self.count);
        self.points.len() as u64 * width..end as u64 * width
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

    fn ready(&self) -> bool {
        self.payload.ready(self.piece())
    }

    fn step(&mut self, _: &Control) -> Result<Option<Imported>> {
        let Some(bytes) = self.payload.take(self.piece(), Zeroizing::default())? else {
            return Ok(None);
        };
        let decode = || {
            self.hasher.update_rayon(&bytes);
            points::decode::<A>(self.encoding, &bytes)
        };
        // A point takes far longer than its bytes suggest.
        let decoded = self.host.on_pool(bytes.len() << 8, decode);
        let first = self.points.len() as u64;
        let refused = |bad: points::Bad| Error::element("points", first + bad.index, bad.problem);
        self.points.extend(decoded.map_err(refused)?);
        (self.points.len() == self.count).then(|| self.finish()).transpose()
    }
}
