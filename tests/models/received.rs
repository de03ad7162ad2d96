//! The received ranges of a payload, and which writer owns a byte.

use std::sync::Arc;

use capstan::{
    buffer::{ByteSink, PayloadPool, PayloadView, ProgressListener, Quota, UploadBuffer},
    error::{EngineError, Limit},
};
use shuttle::{sync::mpsc::channel, thread};

use crate::check;

const LEN: u64 = 6;

fn pool() -> PayloadPool {
    PayloadPool::new(0, 0).expect("memory")
}

/// Notes what a reader sees, and asserts that received bytes never change.
#[derive(Default)]
struct Reader {
    seen: [Option<u8>; LEN as usize],
}

impl Reader {
    fn look(&mut self, payload: &UploadBuffer) {
        for (at, seen) in self.seen.iter_mut().enumerate() {
            let at = at as u64;
            if !payload.has_received(at..at + 1) {
                assert!(seen.is_none(), "byte {at} is not received any more");
                continue;
            }
            let mut byte = [0];
            payload.read(at, &mut byte);
            assert_ne!(byte[0], 0, "byte {at} was received before it was written");
            assert_eq!(*seen.get_or_insert(byte[0]), byte[0], "byte {at} was written twice");
        }
    }
}

#[test]
fn each_byte_is_written_once_and_before_it_is_received() {
    check(|| {
        let payload = Arc::new(UploadBuffer::new(&pool(), LEN, vec![]));
        let writers: Vec<_> = [(0_u64, 1_u8), (2, 2), (1, 3)]
            .into_iter()
            .map(|(offset, value)| {
                let payload = payload.clone();
                thread::spawn(move || payload.write(offset, &[value; 4]).expect("inside"))
            })
            .collect();
        let reader = {
            let payload = payload.clone();
            thread::spawn(move || {
                let mut reader = Reader::default();
                (0..3).for_each(|_| reader.look(&payload));
                reader
            })
        };
        let fresh: u64 = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
        let mut reader = reader.join().unwrap();
        reader.look(&payload);
        assert_eq!((fresh, payload.received(), payload.is_complete()), (LEN, LEN, true));
    });
}

#[test]
fn devices_and_senders_never_own_the_same_byte() {
    check(|| {
        let pool = pool();
        pool.memory().set_pinned_bytes(1 << 20);
        let payload = Arc::new(UploadBuffer::new(&pool, LEN, vec![]));
        let device = {
            let (payload, pool) = (payload.clone(), pool.clone());
            thread::spawn(move || {
                let view = PayloadView::starting_at(&payload, 0);
                let claimed = view.device_destination(0..4).expect("memory");
                let Some(write) = claimed else {
                    return view.write(0, &[1; 4]).expect("inside");
                };
                let place = view.place(0..4).expect("memory").expect("shared");
                for piece in place {
                    pool.memory().write(piece.start as usize, &[1; 4][..piece.len as usize]);
                }
                write.commit();
            })
        };
        let sender = {
            let payload = payload.clone();
            thread::spawn(move || payload.write(2, &[2; 4]).expect("inside"))
        };
        let mut reader = Reader::default();
        reader.look(&payload);
        reader.look(&payload);
        device.join().unwrap();
        sender.join().unwrap();
        reader.look(&payload);
        assert!(payload.is_complete());
        assert!(payload.missing().is_empty());
    });
}

#[test]
fn whoever_waits_for_bytes_hears_of_the_last_one() {
    check(|| {
        let payload = Arc::new(UploadBuffer::new(&pool(), LEN, vec![]));
        let waiter = {
            let payload = payload.clone();
            thread::spawn(move || {
                let (sender, progress) = channel();
                let listener: Arc<ProgressListener> = Arc::new(move || _ = sender.send(()));
                payload.listen(&listener);
                while !payload.is_complete() {
                    progress.recv().expect("the listener lives");
                }
            })
        };
        let writers = [0, 3].map(|offset| {
            let payload = payload.clone();
            thread::spawn(move || payload.write(offset, &[1; 3]).expect("inside"))
        });
        for writer in writers {
            writer.join().unwrap();
        }
        waiter.join().unwrap();
    });
}

#[test]
fn the_first_failure_is_kept_and_ends_writers() {
    check(|| {
        let payload = Arc::new(UploadBuffer::new(&pool(), LEN, vec![]));
        let failures = [EngineError::Cancelled, EngineError::Deadline].map(|error| {
            let payload = payload.clone();
            thread::spawn(move || {
                payload.fail(error);
                payload.failure().expect("failed")
            })
        });
        let writer = {
            let payload = payload.clone();
            thread::spawn(move || payload.write(0, &[1; 6]))
        };
        let kept = failures.map(|failure| failure.join().unwrap());
        assert_eq!(kept[0], kept[1]);
        match writer.join().unwrap() {
            Ok(fresh) => assert_eq!((fresh, payload.received()), (LEN, LEN)),
            Err(error) => assert_eq!((error, payload.received()), (kept[0].clone(), 0)),
        }
        assert_eq!(payload.write(0, &[1]), Err(kept[0].clone()));
    });
}

#[test]
fn budgets_are_never_exceeded_and_always_returned() {
    check(|| {
        let quota = Quota::new(Limit::BytesInFlight, 8);
        let pool = pool();
        let calls: Vec<_> = (0..3)
            .map(|_| {
                let (quota, pool) = (quota.clone(), pool.clone());
                thread::spawn(move || {
                    let Ok(permit) = quota.acquire(4) else { return false };
                    assert!(quota.used() <= 8, "above the budget");
                    drop(UploadBuffer::new(&pool, 4, vec![permit]));
                    true
                })
            })
            .collect();
        let accepted = calls.into_iter().map(|call| call.join().unwrap()).filter(|ok| *ok).count();
        assert!(accepted >= 2, "refused although there was room");
        assert_eq!(quota.used(), 0);
    });
}

/// Blocks of one memory: two payloads never get the same bytes.
#[test]
fn payloads_share_no_memory() {
    check(|| {
        let pool = pool();
        let owners: Vec<_> = (1..4_u8)
            .map(|value| {
                let pool = pool.clone();
                thread::spawn(move || {
                    let payload = UploadBuffer::new(&pool, LEN, vec![]);
                    payload.write(0, &[value; 3]).expect("memory");
                    payload.write(3, &[value; 3]).expect("memory");
                    assert_eq!(payload.copy(0, LEN as usize), [value; LEN as usize]);
                })
            })
            .collect();
        owners.into_iter().for_each(|owner| owner.join().unwrap());
        // All are returned, and wiped.
        let next = UploadBuffer::new(&pool, 3 * LEN, vec![]);
        next.place(0..3 * LEN).expect("memory");
        next.mark_written(0..3 * LEN);
        assert!(next.copy(0, 3 * LEN as usize).iter().all(|byte| *byte == 0), "not wiped");
    });
}
