//! Pinned host memory that others fill and read, and from and to which the device copies without
//! the ring between. It is never given back: nobody can free it under a copy.

use std::{
    ops::Range,
    slice,
    sync::{PoisonError, RwLock},
};

use cudarc::driver::{result, sys};

use super::{Context, Fault, Span, Stream};

/// Addresses of all that was ever pinned here, and the contexts that the memory would end with.
static PINNED: RwLock<Vec<(Range<usize>, Context)>> = RwLock::new(Vec::new());

impl Context {
    /// `bytes` bytes of pinned host memory, at least 1, for this process's whole life; all devices
    /// reach it. Zeroed.
    ///
    /// Errors: what the driver says.
    pub fn pin(&self, bytes: usize) -> Result<&'static mut [u8], Fault> {
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE;
        // SAFETY: zeroed right below.
        let base = self.call("cuMemHostAlloc", || unsafe { result::malloc_host(bytes, flags) })?;
        let base = base.cast::<u8>();
        // SAFETY: as long as allocated, and nobody else's.
        let memory = unsafe {
            base.write_bytes(0, bytes);
            slice::from_raw_parts_mut(base, bytes)
        };
        let range = memory.as_ptr_range();
        let mut pinned = PINNED.write().unwrap_or_else(PoisonError::into_inner);
        pinned.push((range.start as usize..range.end as usize, self.clone()));
        Ok(memory)
    }
}

/// Copies `from`, pieces of memory from [`Context::pin`] one after the other, to the device, after
/// all that `stream` was given before. Returns when they are there.
///
/// Errors: `Kernel` where they are not pinned, or not as long as `to`; what the driver says.
pub fn send(stream: &Stream, to: Span<'_, u8>, from: &[&[u8]]) -> Result<(), Fault> {
    fits(to, from.iter().map(|piece| &**piece))?;
    let copies = || {
        let mut at = to.address(stream)?;
        from.iter().try_for_each(|piece| {
            // SAFETY: pinned memory that is never freed and, waited for below, borrowed until the
            // stream is past the copy; the span has room for all pieces.
            unsafe { stream.copy_in(at, piece.as_ptr(), piece.len()) }?;
            at += piece.len() as u64;
            Ok(())
        })
    };
    // Waited for whatever happened: some may be under way.
    let (asked, done) = (copies(), stream.synchronize());
    asked.and(done)
}

/// Copies `from` to pieces of memory from [`Context::pin`], one after the other, after all that
/// `stream` was given before. Returns when all is there.
///
/// Errors: as [`send`].
pub fn receive(stream: &Stream, from: Span<'_, u8>, to: &mut [&mut [u8]]) -> Result<(), Fault> {
    fits(from, to.iter().map(|piece| &**piece))?;
    let mut copies = || {
        let mut at = from.address(stream)?;
        to.iter_mut().try_for_each(|piece| {
            // SAFETY: as in `send`.
            unsafe { stream.copy_out(piece.as_mut_ptr(), at, piece.len()) }?;
            at += piece.len() as u64;
            Ok(())
        })
    };
    // Waited for whatever happened: some may be under way.
    let (asked, done) = (copies(), stream.synchronize());
    asked.and(done)
}

fn fits<'p>(span: Span<'_, u8>, pieces: impl Iterator<Item = &'p [u8]>) -> Result<(), Fault> {
    let refuse = |problem: String| Err(Fault::Kernel { kernel: "copy".into(), problem });
    let pinned = PINNED.read().unwrap_or_else(PoisonError::into_inner);
    let mut bytes = 0;
    for piece in pieces {
        let range = piece.as_ptr_range();
        let (start, end) = (range.start as usize, range.end as usize);
        if !pinned.iter().any(|(all, _)| all.start <= start && end <= all.end) {
            return refuse("memory that is not pinned".to_owned());
        }
        bytes += piece.len();
    }
    if bytes == span.len() {
        return Ok(());
    }
    refuse(format!("{bytes} bytes on the host, {} on the device", span.len()))
}
