//! Bytes between a job's payload and pinned memory. One thread copies some 10 GB/s, a fifth of what
//! a link does, so many do.

use std::sync::Arc;

use rayon::prelude::*;

use crate::{
    buffer::{Sink, Source},
    device::Ring,
    error::Result,
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
const SHARED_MIN: u64 = 4 * PIECE as u64;

impl Copier {
    /// Copies on the threads of `pool`.
    pub fn new(pool: Arc<rayon::ThreadPool>) -> Self {
        Self { pool }
    }

    /// Fills `to`, one part after the other, with the bytes of `from` from number `at` on; says how
    /// many they are.
    pub fn gather(&self, from: &dyn Source, at: u64, to: &mut [&mut [u8]]) -> u64 {
        let mut bytes = 0;
        let mut copies = Vec::new();
        for part in to.iter_mut() {
            for piece in part.chunks_mut(PIECE) {
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

    /// Writes `from`, one part after the other, to `to`, from byte number `at` on; says how many
    /// bytes they are.
    ///
    /// Errors: what `to` says.
    pub fn scatter(&self, from: &[&[u8]], to: &dyn Sink, at: u64) -> Result<u64> {
        let mut bytes = 0;
        let mut copies = Vec::new();
        for piece in from.iter().flat_map(|part| part.chunks(PIECE)) {
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
    pub fn wipe(&self, ring: &Ring, bytes: u64) {
        if bytes < SHARED_MIN {
            return ring.wipe();
        }
        let threads = self.pool.current_num_threads().min(WIPERS);
        self.pool.install(|| (0..threads).into_par_iter().for_each(|_| ring.wipe()));
    }
}
