//! Copies between a job's payload and a device: directly if the payload is in pinned memory, else
//! through the ring. Many threads fill it, since one copies only 10 GB/s, a fifth of a link.

use std::sync::Arc;

use rayon::prelude::*;

use crate::{
    buffer::{ByteSink, ByteSource},
    device::{self, CopySession, DeviceSlice, StagingRing, Stream},
    engine::JobControl,
    error::{Error, Result},
};

/// Copies on a thread pool. Clones share it.
#[derive(Clone)]
pub struct PayloadCopier {
    pool: Arc<rayon::ThreadPool>,
}

/// Bytes that one thread copies at a time: a slot of a payload.
const THREAD_COPY_BYTES: usize = 256 << 10;

/// Threads that wipe the ring, one per chunk.
const WIPERS: usize = 8;

/// Fewer bytes are copied sooner by the calling thread.
const SHARED_MIN: u64 = 4 * THREAD_COPY_BYTES as u64;

/// Most bytes of a direct copy, so that `control` is checked in between: a millisecond of a link,
/// which outweighs the wait for each copy's end.
const DIRECT_COPY_BYTES_MAX: usize = 64 << 20;

impl PayloadCopier {
    /// Copies on the threads of `pool`.
    pub fn new(pool: Arc<rayon::ThreadPool>) -> Self {
        Self { pool }
    }

    /// Fills `to` with the bytes of `from` from number `at` on. Returns once `from` has been read;
    /// copies may still be under way.
    ///
    /// Errors: those of `control`; `DeviceLost`.
    pub fn upload(
        &self,
        (copies, stream): (&CopySession, &Stream),
        to: DeviceSlice<'_, u8>,
        (from, at): (&dyn ByteSource, u64),
        control: &JobControl,
    ) -> Result<()> {
        let mut done = 0;
        while done < to.len() {
            control.check()?;
            let (at, step) = (at + done as u64, DIRECT_COPY_BYTES_MAX.min(to.len() - done));
            let held = from.lock_pinned(at..at + step as u64);
            let bytes = held.as_ref().map_or(step, |held| held.bytes() as usize);
            let part = to.slice(done, bytes).ok_or_else(exceeds_span)?;
            match held {
                Some(held) => device::send(stream, part, &held.pieces())?,
                None => {
                    let mut at = at;
                    copies.upload(stream, part).fill_idle_chunks(bytes, |chunks| {
                        control.check()?;
                        at += self.gather(from, at, chunks);
                        Ok::<_, Error>(())
                    })?;
                }
            }
            done += bytes;
        }
        Ok(())
    }

    /// Writes the bytes of `from` to `to`, from byte number `at` on, after all earlier work on
    /// `stream`. Blocks until done.
    ///
    /// Errors: those of [`PayloadCopier::upload`] and of `to`.
    pub fn download(
        &self,
        (copies, stream): (&CopySession, &Stream),
        from: DeviceSlice<'_, u8>,
        (to, at): (&dyn ByteSink, u64),
        control: &JobControl,
    ) -> Result<()> {
        let mut done = 0;
        while done < from.len() {
            control.check()?;
            let (at, step) = (at + done as u64, DIRECT_COPY_BYTES_MAX.min(from.len() - done));
            let room = to.claim_pinned(at..at + step as u64)?;
            let bytes = room.as_ref().map_or(step, |room| room.bytes() as usize);
            let part = from.slice(done, bytes).ok_or_else(exceeds_span)?;
            match room {
                Some(mut room) => {
                    device::receive(stream, part, &mut room.pieces())?;
                    room.commit();
                }
                None => {
                    let mut at = at;
                    copies.download(stream, part, |pieces| {
                        control.check()?;
                        at += self.scatter(pieces, to, at)?;
                        Ok::<_, Error>(())
                    })?;
                }
            }
            done += bytes;
        }
        Ok(())
    }

    /// Fills the parts `to`, one after the other, with the bytes of `from` from number `at` on.
    /// Returns the number of bytes.
    fn gather(&self, from: &dyn ByteSource, at: u64, to: &mut [&mut [u8]]) -> u64 {
        let mut bytes = 0;
        let mut copies = Vec::new();
        for part in to.iter_mut() {
            for piece in part.chunks_mut(THREAD_COPY_BYTES) {
                let begin = at + bytes;
                bytes += piece.len() as u64;
                copies.push((begin, piece));
            }
        }
        let copy = |(begin, piece): (u64, &mut [u8])| from.read(begin, piece);
        if bytes < SHARED_MIN {
            copies.into_iter().for_each(copy);
        } else {
            self.pool.install(|| copies.into_par_iter().with_max_len(1).for_each(copy));
        }
        bytes
    }

    /// Writes the parts `from`, one after the other, to `to` from byte number `at` on. Returns the
    /// number of bytes.
    ///
    /// Errors: those of `to`.
    fn scatter(&self, from: &[&[u8]], to: &dyn ByteSink, at: u64) -> Result<u64> {
        let mut bytes = 0;
        let mut copies = Vec::new();
        for piece in from.iter().flat_map(|part| part.chunks(THREAD_COPY_BYTES)) {
            copies.push((at + bytes, piece));
            bytes += piece.len() as u64;
        }
        let copy = |(begin, piece): (u64, &[u8])| to.write(begin, piece);
        if bytes < SHARED_MIN {
            copies.into_iter().try_for_each(copy)?;
        } else {
            self.pool.install(|| copies.into_par_iter().with_max_len(1).try_for_each(copy))?;
        }
        Ok(bytes)
    }

    /// Wipes the chunks of `ring` after a job of `bytes` bytes.
    pub fn wipe(&self, ring: &StagingRing, bytes: u64) {
        if bytes < SHARED_MIN {
            return ring.wipe();
        }
        let threads = self.pool.current_num_threads().min(WIPERS);
        self.pool.install(|| (0..threads).into_par_iter().for_each(|_| ring.wipe()));
    }
}

fn exceeds_span() -> Error {
    Error::Internal("a copy exceeds its span".to_owned())
}
