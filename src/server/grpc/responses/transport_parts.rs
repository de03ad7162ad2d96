//! The parts of a response that the transport holds: hyper takes one before its reader has room for
//! it, and h2 takes it once the reader has room for a byte, while it holds less than 400 KiB of the
//! response. No code of the server can take them back while the connection is open. They stay in
//! the budgets until the transport drops them, and a connection that keeps them for too long is
//! closed. If callers share the connection, the transport gets one part at a time, so that it asks
//! for the next one while it cannot send the last one: the answer can reset the stream.

use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use bytes::Bytes;
use parking_lot::Mutex;

use super::response::CHUNK_BYTES;
use crate::grpc::connections::{connection_calls::ConnectionCalls, pace::MinRate};
use crate::{
    buffer::Quota,
    jobs::{AdmissionPermit, charge},
};

/// Longer frames are cut into pieces. Those of chunks are shorter.
pub const FRAME_BYTES_MAX: usize = CHUNK_BYTES + 1024;

/// Bytes of a piece. Pieces are copies: the transport holds one until the reader has room for it,
/// and must not keep the whole frame meanwhile. The largest prime below 2^16: hyper keeps a piece
/// that begins where the reader's window ends, and no usual window, such as 65,535 or a power of
/// two, is a multiple of it.
pub const PIECE_BYTES: usize = 65_521;

/// Parts of a response, and pieces of a frame, that the transport holds at most: those in h2, and
/// one in hyper.
const PARTS_MAX: u64 = 3;
const PIECES_MAX: u64 = 8;

/// Bytes that the transport holds at most of a response that is sent in chunks.
pub const fn bytes_of_chunks(response_bytes: u64) -> u64 {
    let max = PARTS_MAX * FRAME_BYTES_MAX as u64;
    if response_bytes < max { response_bytes } else { max }
}

/// Bytes of a response of one message while nobody reads it: its encoding, which is one part, or is
/// cut into pieces.
pub fn bytes_of_message(encoded_bytes: u64) -> u64 {
    match encoded_bytes > FRAME_BYTES_MAX as u64 {
        true => encoded_bytes + encoded_bytes.min(PIECES_MAX * PIECE_BYTES as u64),
        false => encoded_bytes,
    }
}

/// What the parts of a response take of the budgets.
pub enum PartsCost {
    /// All that the transport holds was admitted before.
    Admitted { _permit: ResponsePermit },
    /// Each part is counted in these quotas, even if that exceeds their limits.
    Charged(Vec<Arc<Quota>>),
}

/// A response extension: what the response takes of the budgets, until the transport has dropped
/// its last part.
#[derive(Clone)]
pub struct ResponsePermit {
    pub _permit: Arc<AdmissionPermit>,
}

/// The parts of one response.
pub struct TransportParts {
    pub min: MinRate,
    /// Closed if the parts are not read; `None` if several callers share it.
    connection: Option<ConnectionCalls>,
    held: Mutex<HeldParts>,
    cost: PartsCost,
}

struct HeldParts {
    bytes: u64,
    /// When the transport took or dropped a part.
    changed: Instant,
    /// Wakes the response that waits in [`TransportParts::poll_sent`].
    response: Option<Waker>,
}

/// A part that the transport holds.
struct TransportPart {
    data: Bytes,
    parts: Arc<TransportParts>,
    _charge: AdmissionPermit,
}

impl TransportParts {
    pub fn new(cost: PartsCost, connection: Option<ConnectionCalls>, min: MinRate) -> Arc<Self> {
        let held = Mutex::new(HeldParts { bytes: 0, changed: Instant::now(), response: None });
        Arc::new(Self { min, connection, held, cost })
    }

    /// The part `data`, counted until it is dropped.
    pub fn add(self: &Arc<Self>, data: Bytes) -> Bytes {
        let mut held = self.held.lock();
        held.bytes += data.len() as u64;
        held.changed = Instant::now();
        drop(held);
        let _charge = match &self.cost {
            PartsCost::Admitted { .. } => AdmissionPermit::new(),
            PartsCost::Charged(quotas) => charge(quotas, data.len() as u64),
        };
        Bytes::from_owner(TransportPart { data, parts: self.clone(), _charge })
    }

    /// Ready when the transport may take another part. If callers share the connection, it must
    /// have sent the last one.
    pub fn poll_sent(&self, context: &Context<'_>) -> Poll<()> {
        let mut held = self.held.lock();
        if self.connection.is_some() || held.bytes == 0 {
            return Poll::Ready(());
        }
        held.response = Some(context.waker().clone());
        Poll::Pending
    }

    /// Gives up a response whose reader is too slow. Returns whether the response must reset its
    /// stream: nothing else tells the reader, or frees the part that the transport holds.
    pub fn give_up(&self) -> bool {
        let mut held = self.held.lock();
        let waiting = held.response.take();
        let resets_stream = self.connection.is_none() && held.bytes > 0;
        drop(held);
        waiting.into_iter().for_each(Waker::wake);
        resets_stream
    }

    /// Closes the connection if a reader has taken too long for a part. The response has been
    /// dropped one window earlier, if it had more parts. `late` is how late the server is: as much
    /// time does not count.
    pub fn close_if_stalled(&self, late: Duration) -> bool {
        self.close_if_stalled_at(Instant::now(), late)
    }

    fn close_if_stalled_at(&self, now: Instant, late: Duration) -> bool {
        let mut held = self.held.lock();
        held.changed = now.min(held.changed + late);
        let patience = self.min.window.max(self.min.time_for(held.bytes)) + self.min.window;
        let is_stalled = held.bytes > 0 && now.saturating_duration_since(held.changed) > patience;
        is_stalled && self.connection.as_ref().is_some_and(ConnectionCalls::close)
    }
}

impl AsRef<[u8]> for TransportPart {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

impl Drop for TransportPart {
    fn drop(&mut self) {
        let mut held = self.parts.held.lock();
        held.bytes -= self.data.len() as u64;
        held.changed = Instant::now();
        let waiting = if held.bytes == 0 { held.response.take() } else { None };
        drop(held);
        waiting.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Limit;

    const WINDOW: Duration = Duration::from_secs(60);

    #[test]
    fn a_part_is_counted_until_the_transport_drops_it() {
        let quota = Quota::new(Limit::BytesInFlight, 100);
        let permit = ResponsePermit { _permit: Arc::new(vec![quota.acquire(60).unwrap()]) };
        let min = MinRate { window: WINDOW, bytes_per_second: 1 << 30 };
        // What is counted for each part is never refused.
        for (cost, counted) in [
            (PartsCost::Admitted { _permit: permit }, 60),
            (PartsCost::Charged(vec![quota.clone(), quota.clone()]), 240),
        ] {
            let parts = TransportParts::new(cost, None, min);
            let part = parts.add(Bytes::from(vec![b'p'; 120]));
            let rest = part.slice(118..);
            drop((parts, part));
            assert_eq!((&rest[..], quota.used()), (&b"pp"[..], counted));
            drop(rest);
            assert_eq!(quota.used(), 0);
        }
    }

    #[test]
    fn a_connection_is_closed_if_it_keeps_a_part_without_progress() {
        let calls = ConnectionCalls::default();
        let min = // A part of 4 bytes takes less than the window.
            MinRate { window: WINDOW, bytes_per_second: 100 };
        let parts = TransportParts::new(PartsCost::Charged(vec![]), Some(calls.clone()), min);
        let part = || parts.add(Bytes::from_static(b"part"));
        let (first, second) = (part(), part());
        let begun = Instant::now();
        let is_closed = |after, late| parts.close_if_stalled_at(begun + after, late);
        assert!(!is_closed(5 * WINDOW, 10 * WINDOW), "the server was late");
        drop(first);
        assert!(!is_closed(2 * WINDOW, Duration::ZERO), "has read a part");
        assert!(is_closed(3 * WINDOW, Duration::ZERO));
        assert!(!is_closed(3 * WINDOW, Duration::ZERO), "is closed already");
        drop(second);
        let parts = TransportParts::new(PartsCost::Charged(vec![]), Some(calls), min);
        assert!(!parts.close_if_stalled_at(begun + 3 * WINDOW, Duration::ZERO), "holds nothing");
    }
}
