//! Received bytes of payloads for the transport, without a copy if possible.

use std::sync::Arc;

use bytes::Bytes;
use zeroize::Zeroizing;

use super::UploadBuffer;

/// Bytes in the memory of a payload. The payload is neither wiped nor returned to its quotas until
/// this is dropped.
struct LentBytes {
    payload: Arc<UploadBuffer>,
    /// Where the bytes lie in the shared memory.
    start: usize,
    len: usize,
}

/// A copy, wiped on drop.
struct CopiedBytes(Zeroizing<Vec<u8>>);

impl AsRef<[u8]> for LentBytes {
    fn as_ref(&self) -> &[u8] {
        self.payload.memory.shared().stable_bytes(self.start, self.len)
    }
}

impl AsRef<[u8]> for CopiedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl UploadBuffer {
    /// `len` bytes from `start` on, which must have been received. They share the payload's memory
    /// if they lie in one part of it. Payloads in regions are copied: the client can write there.
    pub fn bytes(self: &Arc<Self>, start: u64, len: usize) -> Bytes {
        let range = start..start + len as u64;
        assert!(self.has_received(range.clone()), "sends bytes {range:?} before they are received");
        match self.memory.single_part(range) {
            Some(part) => {
                let payload = self.clone();
                Bytes::from_owner(LentBytes { payload, start: part.start, len: part.len() })
            }
            None => Bytes::from_owner(CopiedBytes(self.copy(start, len).into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::{
        buffer::{PayloadPool, Quota, RegionSlice, SharedRegion, pool::BLOCK},
        error::Limit,
        region::SharedMemory,
    };

    /// A full block and a tail.
    const LEN: u64 = BLOCK + 1000;

    /// Waits until everything that was dropped is wiped.
    fn wait_for_wiper(pool: &PayloadPool) {
        let (sender, wiped) = mpsc::channel::<()>();
        pool.wiper().drop_later(sender);
        wiped.recv().expect_err("the sender is dropped");
    }

    fn payload_bytes() -> Vec<u8> {
        (0..LEN).map(|i| (i % 251) as u8 + 1).collect()
    }

    #[test]
    fn lent_bytes_lie_in_the_payload_and_count_until_they_are_dropped() {
        let pool = PayloadPool::new(0, 0).unwrap();
        let quota = Quota::new(Limit::BytesInFlight, LEN);
        let all = payload_bytes();
        let permits = vec![quota.acquire(LEN).unwrap()];
        let payload = Arc::new(UploadBuffer::from_bytes(&pool, &all, permits).unwrap());
        let (first, again) = (payload.bytes(5, 100), payload.bytes(5, 100));
        let across = payload.bytes(BLOCK - 5, 10);
        assert_eq!(first.as_ptr(), again.as_ptr(), "copied");
        assert!(first == all[5..105] && across == all[BLOCK as usize - 5..BLOCK as usize + 5]);
        let place = payload.shared_pieces(0..LEN);
        drop((payload, again, across));
        wait_for_wiper(&pool);
        assert_eq!((quota.used(), &first[..]), (LEN, &all[5..105]), "the payload was freed");
        drop(first);
        wait_for_wiper(&pool);
        assert_eq!(quota.used(), 0);
        let mut left = Vec::new();
        for piece in place {
            pool.memory().append_to(&mut left, piece.start as usize, piece.len as usize);
        }
        assert!(left.iter().all(|byte| *byte == 0), "not wiped");
    }

    #[test]
    fn bytes_in_separate_blocks_are_copied() {
        let pool = PayloadPool::new(0, 0).unwrap();
        let all = payload_bytes();
        let gap = UploadBuffer::from_bytes(&pool, &all[..BLOCK as usize], vec![]).unwrap();
        let next = UploadBuffer::from_bytes(&pool, &[1], vec![]).unwrap();
        drop(gap);
        wait_for_wiper(&pool);
        let payload = Arc::new(UploadBuffer::from_bytes(&pool, &all, vec![]).unwrap());
        let (one, other) = (payload.bytes(BLOCK - 5, 10), payload.bytes(BLOCK - 5, 10));
        assert!(one == all[BLOCK as usize - 5..BLOCK as usize + 5] && one == other);
        assert_ne!(one.as_ptr(), other.as_ptr(), "lent");
        drop(next);
    }

    #[test]
    fn bytes_that_a_client_can_change_are_copied() {
        let pool = PayloadPool::new(0, 0).unwrap();
        let quota = Quota::new(Limit::BytesInFlight, 2);
        let memory = Arc::new(SharedMemory::create(2 << 20).unwrap());
        memory.write(7, &[1, 2, 3]);
        let permits = vec![quota.acquire(2).unwrap()];
        let region = SharedRegion::new(memory.clone(), None, permits, pool.wiper().clone());
        let slice = RegionSlice::new(Arc::new(region), 5, 10).unwrap();
        let payload = Arc::new(UploadBuffer::in_region(&pool, slice));
        let bytes = payload.bytes(2, 3);
        memory.write(7, &[9, 9, 9]);
        assert_eq!(bytes, [1, 2, 3][..]);
    }

    #[test]
    #[should_panic(expected = "before they are received")]
    fn bytes_that_are_still_written_are_not_lent() {
        let pool = PayloadPool::new(0, 0).unwrap();
        let payload = Arc::new(UploadBuffer::new(&pool, 10, vec![]));
        payload.write(0, &[1]).unwrap();
        payload.bytes(0, 2);
    }
}
