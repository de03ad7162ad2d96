//! Rows of a group, as one sequence of bytes that is copied piece by piece.

use std::{mem, sync::Arc};

use rayon::prelude::*;

use crate::{
    curve::{Fr, layout},
    device::Ring,
};

/// One thread copies some 10 GB/s, a fifth of what a link does.
pub struct Copier {
    pool: Arc<rayon::ThreadPool>,
}

/// Bytes that one thread copies at a time.
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

    /// Fills `to` with the bytes of `rows` from number `at` on.
    ///
    /// Shape: rows are as long as the first; there are as many bytes.
    pub fn gather(&self, rows: &[Vec<Fr>], at: usize, mut to: &mut [u8]) {
        let bytes = to.len();
        let mut copies = Vec::new();
        let (first, mut skip) = place(rows, at);
        for row in &rows[first..] {
            let row = &layout::fr_as_bytes(row)[mem::take(&mut skip)..];
            let count = row.len().min(to.len());
            let (now, later) = mem::take(&mut to).split_at_mut(count);
            copies.extend(now.chunks_mut(PIECE).zip(row.chunks(PIECE)));
            to = later;
            if to.is_empty() {
                break;
            }
        }
        self.copy(copies, bytes);
    }

    /// Writes `bytes` over the bytes of `rows` from number `at` on.
    ///
    /// Shape: as above.
    pub fn scatter(&self, mut bytes: &[u8], rows: &mut [Vec<Fr>], at: usize) {
        let count = bytes.len();
        let mut copies = Vec::new();
        let (first, mut skip) = place(rows, at);
        for row in &mut rows[first..] {
            let row = &mut layout::fr_as_bytes_mut(row)[mem::take(&mut skip)..];
            let (now, later) = bytes.split_at(row.len().min(bytes.len()));
            copies.extend(row.chunks_mut(PIECE).zip(now.chunks(PIECE)));
            bytes = later;
            if bytes.is_empty() {
                break;
            }
        }
        self.copy(copies, count);
    }

    /// Wipes the chunks of `ring` after a job of `bytes` bytes.
    pub fn wipe(&self, ring: &Ring, bytes: usize) {
        if bytes < SHARED_MIN {
            return ring.wipe();
        }
        let threads = self.pool.current_num_threads().min(WIPERS);
        self.pool.install(|| (0..threads).into_par_iter().for_each(|_| ring.wipe()));
    }

    fn copy(&self, copies: Vec<(&mut [u8], &[u8])>, bytes: usize) {
        // The last piece of a row may have more room than there is to copy.
        let copy = |(to, from): (&mut [u8], &[u8])| to[..from.len()].copy_from_slice(from);
        if bytes < SHARED_MIN {
            copies.into_iter().for_each(copy);
        } else {
            let least = copies.len().div_ceil(bytes / PIECE);
            self.pool.install(|| copies.into_par_iter().with_min_len(least).for_each(copy));
        }
    }
}

/// The row that byte number `at` is in, and which byte of that row it is.
fn place(rows: &[Vec<Fr>], at: usize) -> (usize, usize) {
    let row_bytes = size_of_val(rows[0].as_slice());
    (at / row_bytes, at % row_bytes)
}
