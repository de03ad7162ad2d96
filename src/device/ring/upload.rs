//! Uploads through the ring: chunks are filled and sent in order.

use super::StagingRing;
use crate::device::{DeviceFault, DeviceSlice, Event, Stream};

/// An upload to a device, in order. Drop waits for the copies and wipes the chunks, unless it
/// belongs to a [`CopySession`](super::CopySession), which wipes them later.
pub struct RingUpload<'a, 'l> {
    pub(super) ring: &'a StagingRing,
    pub(super) wipes: bool,
    pub(super) stream: &'a Stream,
    pub(super) to: DeviceSlice<'l, u8>,
    pub(super) sent: usize,
}

impl RingUpload<'_, '_> {
    /// Appends `bytes`.
    ///
    /// Errors: driver faults; class `Misuse` if they exceed the span.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), DeviceFault> {
        self.fill(bytes.len(), |chunk| {
            let (now, later) = bytes.split_at(chunk.len());
            chunk.copy_from_slice(now);
            bytes = later;
            Ok(())
        })
    }

    /// Skips the next `bytes` bytes of the span. After skipping past its end, writes are refused.
    pub fn skip(&mut self, bytes: usize) {
        self.sent = self.sent.saturating_add(bytes);
    }

    /// Appends `bytes` bytes, which `fill` writes directly into the chunks, in order, one chunk per
    /// call.
    ///
    /// Errors: driver faults; those of `fill`; class `Misuse` if the bytes exceed the span.
    pub fn fill<E: From<DeviceFault>>(
        &mut self,
        bytes: usize,
        mut fill: impl FnMut(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.fill_some(bytes, 1, |chunks| chunks.iter_mut().try_for_each(|chunk| fill(chunk)))
    }

    /// Like [`RingUpload::fill`], but passes `fill` all idle chunks at once, at most half of the
    /// ring. For filling by many threads, which are then woken once for all chunks.
    ///
    /// Errors: those of [`RingUpload::fill`].
    pub fn fill_idle_chunks<E: From<DeviceFault>>(
        &mut self,
        bytes: usize,
        fill: impl FnMut(&mut [&mut [u8]]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.fill_some(bytes, self.ring.0.chunks_per_copy_max, fill)
    }

    fn fill_some<E: From<DeviceFault>>(
        &mut self,
        bytes: usize,
        most: usize,
        mut fill: impl FnMut(&mut [&mut [u8]]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(all) = self.to.slice(self.sent, bytes) else {
            let room = self.to.len().saturating_sub(self.sent);
            let problem = format!("{bytes} bytes, but only {room} are left in the span");
            return Err(DeviceFault::KernelMismatch { kernel: "upload".into(), problem }.into());
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
                chunk.send(self.stream, all.slice(done, now).expect("within the span"))?;
                done += now;
                self.sent += now;
            }
        }
        Ok(())
    }

    /// An event that is reached when everything written so far is on the device.
    ///
    /// Errors: driver faults.
    pub fn record_sent(&self) -> Result<Event, DeviceFault> {
        self.stream.record()
    }
}

impl Drop for RingUpload<'_, '_> {
    fn drop(&mut self) {
        if self.wipes {
            // A fault was already reported and the device disabled; `wipe` skips chunks that a copy
            // may still read.
            let _waited = self.stream.synchronize();
            self.ring.wipe();
        }
    }
}
