//! Bytes between a job's payload and pinned memory. One thread copies some 10 GB/s, a fifth of what
//! a link does, so many do.

use std::sync::Arc;

use rayon::prelude::*;

use crate::{
    buffer::{Sink, Source},
    device::Ring,
};

/// Copies on the threads of a pool. Clones share them.
#[derive(Clone)]
pub struct Copier {
    pool: Arc<rayon::ThreadPool>,
}

/// Bytes that one thread copies at a time: a slot of a payload.
const PIECE: usize = 256 << 10;

/// Threads that wipe, one a chunk.
const WIPERS: usize = 8;

/// Fewer bytes are copied sooner by the thread that has them.
const SHARED_MIN: usize = 4 * PIECE;

impl Copier {
    /// Copies on the threads of `pool`.
    pub fn new(pool: Arc<rayon::ThreadPool>) -> Self {
        Self { pool }
    }

    /// Fills `to` with the bytes of `from` from number `at` on.
    pub fn gather(&self, from: &dyn Source, at: u64, to: &mut [u8]) {
        let copy = |(piece, to): (usize, &mut [u8])| from.read(at + (piece * PIECE) as u64, to);
        if to.len() < SHARED_MIN {
            to.chunks_mut(PIECE).enumerate().for_each(copy);
        } else {
            self.pool.install(|| to.par_chunks_mut(PIECE).enumerate().for_each(copy));
        }
    }

    /// Writes `from` to `to`, from byte number `at` on.
    ///
    /// Errors: what `to` says.
    pub fn scatter(&self, from: &[u8], to: &dyn Sink, at: u64) -> crate::error::Result<()> {
        let copy = |(piece, from): (usize, &[u8])| to.write(at + (piece * PIECE) as u64, from);
        if from.len() < SHARED_MIN {
            from.chunks(PIECE).enumerate().try_for_each(copy)
        } else {
            self.pool.install(|| from.par_chunks(PIECE).enumerate().try_for_each(copy))
        }
    }

    /// Wipes the chunks of `ring` after a job of `bytes` bytes.
    pub fn wipe(&self, ring: &Ring, bytes: usize) {
        if bytes < SHARED_MIN {
            return ring.wipe();
        }
        let threads = self.pool.current_num_threads().min(WIPERS);
        self.pool.install(|| (0..threads).into_par_iter().for_each(|_| ring.wipe()));
    }
}
