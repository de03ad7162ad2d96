//! Copies between a job's payload and a device: directly if the payload is in pinned memory, else
//! through the ring. Many threads fill it: one copies at a fifth of the link's rate
//! (`benches/experiments/host-device.md`).

use std::sync::Arc;

use rayon::prelude::*;

use crate::{
    buffer::{ByteSink, ByteSource, SourceSlices},
    device::{self, CopySession, DeviceSlice, Stream},
    engines::JobControl,
    error::{Error, Result},
};

#[derive(Clone)]
pub struct PayloadCopier(pub Arc<rayon::ThreadPool>);

/// The pinned chunks and the stream of a copy.
#[derive(Clone, Copy)]
pub struct CopyLane<'a> {
    pub session: &'a CopySession,
    pub stream: &'a Stream,
}

/// Bytes that one thread copies at a time: the clients' chunk size.
const THREAD_COPY_BYTES: usize = 256 << 10;

/// Threads that wipe the ring, one per chunk.
const WIPERS: usize = 8;

/// Fewer bytes are copied sooner by the calling thread.
const SHARED_MIN: u64 = 4 * THREAD_COPY_BYTES as u64;

/// Maximum bytes of a direct copy, so that `control` is checked in between: a millisecond of a
/// link, which outweighs the wait for each copy's end.
const DIRECT_COPY_BYTES_MAX: usize = 64 << 20;

impl PayloadCopier {
    /// Fills `to` with the bytes of `from` from number `offset` on. Calls `meanwhile` once all
    /// copies have been started, and returns once `from` has been read; copies may still be under
    /// way.
    ///
    /// Errors: those of `control` and `meanwhile`; `DeviceLost`.
    pub fn upload<T>(
        &self,
        lane: CopyLane<'_>,
        to: DeviceSlice<'_, u8>,
        from: &dyn ByteSource,
        offset: u64,
        control: &JobControl,
        meanwhile: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let mut done = 0;
        while done < to.len() {
            control.check()?;
            let mut offset = offset + done as u64;
            let step = DIRECT_COPY_BYTES_MAX.min(to.len() - done);
            let direct = from.device_source(offset..offset + step as u64);
            let bytes = direct.as_ref().map_or(step, |direct| direct.bytes() as usize);
            let part = to.slice(done, bytes).ok_or_else(exceeds_span)?;
            match direct {
                Some(SourceSlices(slices)) if done + bytes == to.len() => {
                    return device::send(lane.stream, part, &slices, meanwhile);
                }
                Some(SourceSlices(slices)) => {
                    device::send(lane.stream, part, &slices, || Ok::<_, Error>(()))?;
                }
                None => {
                    lane.session.upload(lane.stream, part).fill_idle_chunks(bytes, |chunks| {
                        control.check()?;
                        let parts = chunks.iter_mut();
                        let pieces = parts.flat_map(|part| part.chunks_mut(THREAD_COPY_BYTES));
                        offset += self.copy(offset, pieces, |start, piece| {
                            from.read(start, piece);
                            Ok(())
                        })?;
                        Ok::<_, Error>(())
                    })?;
                }
            }
            done += bytes;
        }
        meanwhile()
    }

    /// Writes the bytes of `from` to `to`, from byte number `offset` on, after all earlier work on
    /// the stream. Blocks until done.
    ///
    /// Errors: those of [`PayloadCopier::upload`] and of `to`.
    pub fn download(
        &self,
        lane: CopyLane<'_>,
        from: DeviceSlice<'_, u8>,
        to: &dyn ByteSink,
        offset: u64,
        control: &JobControl,
    ) -> Result<()> {
        let mut done = 0;
        while done < from.len() {
            control.check()?;
            let mut offset = offset + done as u64;
            let step = DIRECT_COPY_BYTES_MAX.min(from.len() - done);
            let direct = to.device_destination(offset..offset + step as u64)?;
            let bytes = direct.as_ref().map_or(step, |direct| direct.bytes() as usize);
            let part = from.slice(done, bytes).ok_or_else(exceeds_span)?;
            match direct {
                Some(direct) => {
                    device::receive(lane.stream, part, &direct.slices)?;
                    direct.commit();
                }
                None => {
                    lane.session.download(lane.stream, part, |pieces| {
                        control.check()?;
                        let pieces = pieces.iter().flat_map(|part| part.chunks(THREAD_COPY_BYTES));
                        offset +=
                            self.copy(offset, pieces, |start, piece| to.write(start, piece))?;
                        Ok::<_, Error>(())
                    })?;
                }
            }
            done += bytes;
        }
        Ok(())
    }

    /// Calls `copy` with each of adjacent pieces and the number of its first byte, the first being
    /// `offset`. Returns the number of bytes.
    fn copy<P: AsRef<[u8]> + Send>(
        &self,
        offset: u64,
        pieces: impl Iterator<Item = P>,
        copy: impl Fn(u64, P) -> Result<()> + Sync,
    ) -> Result<u64> {
        let mut bytes = 0;
        let mut copies = Vec::new();
        for piece in pieces {
            let start = offset + bytes;
            bytes += piece.as_ref().len() as u64;
            copies.push((start, piece));
        }
        let copy = |(start, piece)| copy(start, piece);
        if bytes < SHARED_MIN {
            copies.into_iter().try_for_each(copy)?;
        } else {
            self.0.install(|| copies.into_par_iter().with_max_len(1).try_for_each(copy))?;
        }
        Ok(bytes)
    }

    /// Wipes the chunks that a job has used, when its copies are done.
    pub fn wipe(&self, session: &CopySession) {
        if session.staged_bytes() < SHARED_MIN {
            return session.wipe();
        }
        let threads = self.0.current_num_threads().min(WIPERS);
        self.0.install(|| (0..threads).into_par_iter().for_each(|_| session.wipe()));
    }
}

fn exceeds_span() -> Error {
    Error::Internal("a copy exceeds its span".to_owned())
}
