//! Uploads: chunks are filled, and sent in order.

use super::Ring;
use crate::device::{Event, Fault, Span, Stream};

/// Bytes on their way to a device, in order. Dropped, it waits for the copies and wipes the chunks,
/// but for one of [`Copies`].
pub struct Upload<'a, 'l> {
    pub(super) ring: &'a Ring,
    pub(super) wipes: bool,
    pub(super) stream: &'a Stream,
    pub(super) to: Span<'l, u8>,
    pub(super) sent: usize,
}

impl Upload<'_, '_> {
    /// Sends `bytes` after what was sent before.
    ///
    /// Errors: what the driver says; `Misuse` by class where there is no room for them.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), Fault> {
        self.fill(bytes.len(), |chunk| {
            let (now, later) = bytes.split_at(chunk.len());
            chunk.copy_from_slice(now);
            bytes = later;
            Ok(())
        })
    }

    /// Leaves the next `bytes` bytes as they are; beyond the end, the next write is refused.
    pub fn skip(&mut self, bytes: usize) {
        self.sent = self.sent.saturating_add(bytes);
    }

    /// Sends `bytes` bytes that `fill` writes right into the chunks, in order, a chunk at a time.
    ///
    /// Errors: what the driver says; what `fill` says; `Misuse` by class where there is no room.
    pub fn fill<E: From<Fault>>(
        &mut self,
        bytes: usize,
        mut fill: impl FnMut(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.fill_some(bytes, 1, |chunks| chunks.iter_mut().try_for_each(|chunk| fill(chunk)))
    }

    /// The same, as many chunks at a time as are idle, half of the ring at most: for who fills them
    /// with many threads, which are sooner woken once for all of them.
    ///
    /// Errors: as above.
    pub fn fill_several<E: From<Fault>>(
        &mut self,
        bytes: usize,
        fill: impl FnMut(&mut [&mut [u8]]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.fill_some(bytes, self.ring.0.share, fill)
    }

    fn fill_some<E: From<Fault>>(
        &mut self,
        bytes: usize,
        most: usize,
        mut fill: impl FnMut(&mut [&mut [u8]]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(all) = self.to.part(self.sent, bytes) else {
            let room = self.to.len().saturating_sub(self.sent);
            let problem = format!("{bytes} bytes, room for {room}");
            return Err(Fault::Kernel { kernel: "upload".into(), problem }.into());
        };
        let width = self.ring.0.chunk_bytes;
        let mut done = 0;
        while done < bytes {
            let mut chunks = self.ring.0.take_some(most.min((bytes - done).div_ceil(width)))?;
            let mut left = bytes - done;
            let mut parts: Vec<_> = chunks
                .iter_mut()
                .map(|chunk| {
                    let now = left.min(width);
                    left -= now;
                    let used = chunk.chunk().used.max(now);
                    chunk.chunk().used = used;
                    &mut chunk.bytes(now).0[..now]
                })
                .collect();
            fill(&mut parts)?;
            for mut chunk in chunks {
                let now = (bytes - done).min(width);
                chunk.send(self.stream, all.part(done, now).expect("inside of all"))?;
                done += now;
                self.sent += now;
            }
        }
        Ok(())
    }

    /// The point at which all that was written is on the device.
    ///
    /// Errors: what the driver says.
    pub fn sent(&self) -> Result<Event, Fault> {
        self.stream.record()
    }
}

impl Drop for Upload<'_, '_> {
    fn drop(&mut self) {
        if self.wipes {
            // A fault has been reported where it came up, and the device is given up; its chunks
            // are wiped where no copy reads them.
            let _waited = self.stream.synchronize();
            self.ring.wipe();
        }
    }
}
