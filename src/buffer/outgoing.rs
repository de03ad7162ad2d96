//! Bytes of payloads for the transport, without a copy if possible.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use zeroize::Zeroizing;

use super::{UploadBuffer, group::LockedBytes, pool::SLOT};

/// Bytes in the payload's memory. Their permits are held until this is dropped.
struct LentBytes {
    /// `None` during drop.
    bytes: Option<LockedBytes>,
    payload: Option<Arc<UploadBuffer>>,
}

/// A copy, wiped on drop.
struct CopiedBytes(Zeroizing<Vec<u8>>);

impl AsRef<[u8]> for LentBytes {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref().map_or(&[], LockedBytes::as_slice)
    }
}

impl Drop for LentBytes {
    /// The last bytes of a payload are dropped by the transport, which must not wait for the wiping.
    fn drop(&mut self) {
        self.bytes = None;
        if let Some(last) = self.payload.take().and_then(Arc::into_inner) {
            let wiper = last.memory.pool.wiper().clone();
            wiper.drop_later(last);
        }
    }
}

impl AsRef<[u8]> for CopiedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl UploadBuffer {
    /// `len` bytes from `start` on, which must have been received; not for payloads in regions.
    /// They are not copied if they are in one slot of 256 KiB and no later write needs its lock.
    pub fn bytes(self: &Arc<Self>, start: u64, len: usize) -> Bytes {
        let range = start..start + len as u64;
        let is_complete = self.is_complete();
        let may_lend = is_complete || self.has_received(self.slots_around(&range));
        match may_lend.then(|| self.memory.lock(range, is_complete)).flatten() {
            Some(bytes) => {
                let (bytes, payload) = (Some(bytes), Some(self.clone()));
                Bytes::from_owner(LentBytes { bytes, payload })
            }
            None => Bytes::from_owner(CopiedBytes(self.copy(start, len).into())),
        }
    }

    /// All bytes of the slots that hold `range`.
    fn slots_around(&self, range: &Range<u64>) -> Range<u64> {
        let slot = SLOT as u64;
        range.start / slot * slot..range.end.next_multiple_of(slot).min(self.len())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::{
        buffer::{PayloadPool, Quota},
        error::Limit,
    };

    const LEN: usize = 3 * SLOT + 1000;

    fn payload(pool: &PayloadPool, quota: &Arc<Quota>) -> Arc<UploadBuffer> {
        Arc::new(UploadBuffer::new(pool, LEN as u64, vec![quota.acquire(LEN as u64).unwrap()]))
    }

    /// Whether `bytes` are in the memory of a pool that has `pinned` memory.
    fn is_in(pinned: Range<usize>, bytes: &Bytes) -> bool {
        pinned.contains(&(bytes.as_ptr() as usize))
    }

    #[test]
    fn lends_whole_slots_and_counts_them_until_they_are_dropped() {
        let memory = vec![0; 16 << 20].leak();
        let pinned = memory.as_ptr() as usize..memory.as_ptr() as usize + memory.len();
        let pool = PayloadPool::new(0, vec![memory]);
        let quota = Quota::new(Limit::BytesInFlight, LEN as u64);
        let all: Vec<u8> = (0..LEN).map(|i| (i % 251) as u8).collect();
        let payload = payload(&pool, &quota);
        payload.write(0, &all[..SLOT + 10]).unwrap();
        // The second slot is still to be written: its lock must not be held.
        let (whole, begun) = (payload.bytes(0, SLOT), payload.bytes(SLOT as u64, 10));
        assert!(is_in(pinned.clone(), &whole) && !is_in(pinned.clone(), &begun));
        payload.write(SLOT as u64 + 10, &all[SLOT + 10..]).unwrap();
        let across = payload.bytes(SLOT as u64 - 5, 10);
        let tail = payload.bytes(3 * SLOT as u64, 1000);
        assert!(!is_in(pinned.clone(), &across) && is_in(pinned.clone(), &tail));
        assert!(whole == all[..SLOT] && begun == all[SLOT..SLOT + 10]);
        assert!(across == all[SLOT - 5..SLOT + 5] && tail == all[3 * SLOT..]);
        // Lent bytes may be lent again and read by others.
        assert!(payload.bytes(0, SLOT) == whole && payload.copy(0, LEN) == all);
        drop((payload, begun, across, tail));
        assert_eq!(quota.used(), LEN as u64, "the transport holds a slot");
        assert!(whole == all[..SLOT]);
        drop(whole);
        let (wiped, done) = mpsc::channel::<()>();
        pool.wiper().drop_later(wiped);
        done.recv().expect_err("everything before it is wiped");
        assert_eq!(quota.used(), 0);
        assert!(pool.take_pinned().unwrap().iter().all(|slot| slot.read().iter().all(|b| *b == 0)));
    }

    #[test]
    fn lends_other_memory_once_the_payload_is_complete() {
        let (pool, quota) =
            (PayloadPool::new(0, vec![]), Quota::new(Limit::BytesInFlight, 1 << 30));
        let payload = payload(&pool, &quota);
        let all = vec![7; LEN];
        payload.write(0, &all[..SLOT]).unwrap();
        let copied = payload.bytes(0, SLOT);
        payload.write(SLOT as u64, &all[SLOT..]).unwrap();
        let (lent, again) = (payload.bytes(0, SLOT), payload.bytes(0, SLOT));
        assert!(lent.as_ptr() == again.as_ptr() && lent.as_ptr() != copied.as_ptr());
        assert!(lent == all[..SLOT] && copied == all[..SLOT]);
    }
}
