//! The kernels of passes, and how each divides its words among threads.

use crate::device::BlockShape;

/// log2 of the longest transform whose stages are all in shared memory.
pub(super) const LG_SMALL_MAX: u32 = 7;
pub(super) const LG_SMALL_TILE: u32 = 10;
pub(super) const SMALL_THREADS: u32 = 256;

/// How a kernel of `kernels/ntt31/passes.cu` divides a tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PassShape {
    /// log2 of the radix.
    pub lg_r: u32,
    /// log2 of a tile's words.
    pub lg_tile: u32,
    /// log2 of a thread's words.
    pub lg_words: u32,
    /// Of columns, not of rows.
    pub has_columns: bool,
}

impl PassShape {
    /// log2 of the columns of a tile; of the rows, if it has no columns.
    pub const fn lg_lanes(self) -> u32 {
        self.lg_tile - self.lg_r
    }

    /// The threads of a tile, all of whose words are in shared memory.
    pub const fn block(self) -> BlockShape {
        let Self { lg_tile, lg_words, .. } = self;
        BlockShape { threads: 1 << (lg_tile - lg_words), shared_bytes: 4 << lg_tile }
    }

    /// Stages of each digit, in the order of DIF: of about the same number, of at most `lg_words`.
    pub fn digits(self) -> impl Iterator<Item = u32> {
        let Self { lg_r, has_columns, .. } = self;
        let count = lg_r.div_ceil(self.lg_words);
        // Columns have the larger digits last, rows first.
        (0..count).map(move |i| (lg_r + if has_columns { i } else { count - 1 - i }) / count)
    }

    pub fn last_digit(self) -> u32 {
        self.digits().last().unwrap_or(0)
    }

    /// Whether the kernel is named `wide`: it suits many words.
    pub const fn is_wide(self) -> bool {
        self.lg_words == 5
    }
}

/// The kernel of a pass over columns: with large tiles, or with small ones if there are such.
pub(super) fn columns_shape(lg_r: u32, is_wide: bool) -> Option<PassShape> {
    let (lg_lanes, lg_words) = match (lg_r, is_wide) {
        (6, _) => (4, 3),
        (7, _) => (4, 4),
        (8, false) => (3, 4),
        (8, true) => (5, 5),
        (9 | 10, _) => (4, 5),
        _ => return None,
    };
    Some(PassShape { lg_r, lg_tile: lg_r + lg_lanes, lg_words, has_columns: true })
}

/// The kernel of a pass over rows: with large tiles, or with small ones if there are such.
pub(super) fn rows_shape(lg_r: u32, is_wide: bool) -> Option<PassShape> {
    let (lg_tile, lg_words) = match (lg_r, is_wide) {
        (8, false) => (10, 4),
        (9, false) => (10, 3),
        (10, false) => (10, 4),
        (11, false) => (11, 4),
        (12, false) => (12, 3),
        (8..=12, true) => (12, 5),
        (13 | 14, _) => (lg_r, 5),
        _ => return None,
    };
    Some(PassShape { lg_r, lg_tile, lg_words, has_columns: false })
}
