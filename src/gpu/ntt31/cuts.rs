//! How a transform is cut into passes.

use super::shapes::{LG_SMALL_MAX, PassShape, columns_shape, rows_shape};

/// Words of all rows up to which kernels with small tiles are faster: they spread the words over
/// more multiprocessors.
const LG_NARROW_WORDS_MAX: u32 = 20;

/// Stages of each pass in natural order, by log2 of the length: columns, then rows. Measured on an
/// H200 (`benches/experiments/ntt31.md`).
const NARROW: [&[u32]; 21] = [
    &[],
    &[1],
    &[2],
    &[3],
    &[4],
    &[5],
    &[6],
    &[7],
    &[8],
    &[9],
    &[10],
    &[11],
    &[12],
    &[13],
    &[6, 8],
    &[7, 8],
    &[8, 8],
    &[8, 9],
    &[8, 10],
    &[8, 11],
    &[8, 12],
];

/// The same from 2^14 words on, for many words.
const WIDE: [&[u32]; 14] = [
    &[14],
    &[7, 8],
    &[8, 8],
    &[8, 9],
    &[8, 10],
    &[8, 11],
    &[8, 12],
    &[9, 12],
    &[9, 13],
    &[10, 13],
    &[10, 14],
    &[8, 8, 9],
    &[8, 8, 10],
    &[8, 8, 11],
];
const LG_WIDE_MIN: u32 = 14;

/// Instead of those of `WIDE` whose tiles take 64 KiB, for a device whose blocks have less.
const WIDE_IN_SMALL_TILES: [&[u32]; 3] = [&[6, 8], &[7, 8, 8], &[8, 8, 8]];

/// The passes of a transform.
#[derive(Debug, Clone, Copy)]
pub struct Cut31<'a> {
    /// log2 of the radix of each pass, columns first; none for one element.
    pub lg_radices: &'a [u32],
    /// Whether the kernels have large tiles, if there are such.
    pub is_wide: bool,
}

impl Cut31<'static> {
    /// The fastest passes of `rows` transforms of 2^`lg_n` elements, on a device whose blocks have
    /// up to `shared_bytes_max` bytes of shared memory: all devices have 48 KiB. `None` if no
    /// kernels are that long: no prime has so large a two-adicity.
    pub fn of(lg_n: u32, rows: u32, shared_bytes_max: u32) -> Option<Self> {
        let is_wide = u64::from(rows) << lg_n > 1 << LG_NARROW_WORDS_MAX;
        if lg_n < LG_WIDE_MIN || !is_wide {
            return Some(Self { lg_radices: NARROW.get(lg_n as usize)?, is_wide });
        }
        let fastest = Self { lg_radices: WIDE.get((lg_n - LG_WIDE_MIN) as usize)?, is_wide };
        let in_small_tiles = WIDE_IN_SMALL_TILES
            .into_iter()
            .map(|lg_radices| Self { lg_radices, is_wide })
            .find(|cut| cut.lg_n() == lg_n && fastest.shared_bytes() > shared_bytes_max);
        Some(in_small_tiles.unwrap_or(fastest))
    }
}

impl Cut31<'_> {
    fn lg_n(&self) -> u32 {
        self.lg_radices.iter().sum()
    }

    /// The shape of each pass; of one that is the whole of a short transform, if it has a kernel.
    fn shapes(&self) -> impl Iterator<Item = Option<PassShape>> {
        let &Self { lg_radices, is_wide } = self;
        lg_radices.iter().enumerate().map(move |(number, &lg_r)| {
            let has_columns = number + 1 < lg_radices.len();
            if has_columns { columns_shape(lg_r, is_wide) } else { rows_shape(lg_r, is_wide) }
        })
    }

    /// Bytes of shared memory of a block, of the pass that takes most.
    pub fn shared_bytes(&self) -> u32 {
        self.shapes().flatten().map(|shape| shape.block().shared_bytes).max().unwrap_or(0)
    }

    /// Whether kernels exist for these passes of a transform of 2^`lg_n` elements, and each of
    /// columns has enough columns for its tile.
    pub(super) fn fits(&self, lg_n: u32) -> bool {
        if self.lg_n() != lg_n {
            return false;
        }
        let is_small = matches!(self.lg_radices, [] | [1..=LG_SMALL_MAX]);
        let mut lg_block = lg_n;
        let mut has_columns = |shape: PassShape| {
            lg_block -= shape.lg_r;
            !shape.has_columns || lg_block >= shape.lg_lanes()
        };
        is_small || self.shapes().all(|shape| shape.is_some_and(&mut has_columns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Prime31;

    #[test]
    fn every_possible_length_has_passes_that_fit_the_device() {
        for lg_n in 0..=Prime31::ALL.iter().map(|prime| prime.two_adicity()).max().unwrap() {
            for rows in [1, 1000, u32::MAX] {
                for shared_bytes_max in [48 << 10, 64 << 10, 99 << 10, 227 << 10] {
                    let cut = Cut31::of(lg_n, rows, shared_bytes_max).unwrap();
                    assert!(cut.fits(lg_n), "{cut:?} of 2^{lg_n}");
                    assert!(cut.shared_bytes() <= shared_bytes_max, "{cut:?} of 2^{lg_n}");
                }
            }
        }
        assert!(Cut31::of(28, 1, u32::MAX).is_none());
    }

    #[test]
    fn passes_without_kernels_are_refused() {
        for lg_radices in [&[15][..], &[5, 10], &[8, 7], &[11, 4], &[7, 7], &[]] {
            assert!(!Cut31 { lg_radices, is_wide: true }.fits(15), "{lg_radices:?}");
        }
    }
}
