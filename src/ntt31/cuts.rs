//! How a transform is cut into passes.

use super::shapes::{LG_SMALL_MAX, columns_shape, rows_shape};

/// Words of all rows up to which kernels with small tiles are faster: they spread the words over more
/// multiprocessors.
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

/// Whether kernels with large tiles are faster for `rows` transforms of 2^`lg_n` elements.
pub(super) fn is_wide(lg_n: u32, rows: u32) -> bool {
    u64::from(rows) << lg_n > 1 << LG_NARROW_WORDS_MAX
}

/// log2 of the radix of each pass of `rows` transforms of 2^`lg_n` elements, columns first; none for
/// one element. `None` if no kernels are that long: no prime has so large a two-adicity.
pub fn lg_radices(lg_n: u32, rows: u32) -> Option<&'static [u32]> {
    if lg_n < LG_WIDE_MIN || !is_wide(lg_n, rows) {
        return NARROW.get(lg_n as usize).copied();
    }
    WIDE.get((lg_n - LG_WIDE_MIN) as usize).copied()
}

/// Whether kernels exist for these passes of a transform of 2^`lg_n` elements, and each of columns
/// has enough columns for its tile.
pub(super) fn passes_fit(lg_n: u32, lg_radices: &[u32], is_wide: bool) -> bool {
    if lg_radices.iter().sum::<u32>() != lg_n {
        return false;
    }
    let Some((&last, columns)) = lg_radices.split_last() else { return true };
    let is_small = columns.is_empty() && (1..=LG_SMALL_MAX).contains(&last);
    let mut lg_block = lg_n;
    let columns_fit = columns.iter().all(|&lg_r| {
        lg_block -= lg_r;
        columns_shape(lg_r, is_wide).is_some_and(|shape| lg_block >= shape.lg_lanes())
    });
    columns_fit && (is_small || rows_shape(last, is_wide).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Prime31;

    #[test]
    fn every_possible_length_has_passes_with_kernels() {
        for lg_n in 0..=Prime31::ALL.iter().map(|prime| prime.two_adicity()).max().unwrap() {
            for rows in [1, 1000, u32::MAX] {
                let radices = lg_radices(lg_n, rows).unwrap();
                assert!(passes_fit(lg_n, radices, is_wide(lg_n, rows)), "{rows} x 2^{lg_n}");
            }
        }
        assert!(lg_radices(28, 1).is_none());
    }

    #[test]
    fn passes_without_kernels_are_refused() {
        for passes in [&[15][..], &[5, 10], &[8, 7], &[11, 4], &[7, 7], &[]] {
            assert!(!passes_fit(15, passes, true), "{passes:?}");
        }
    }
}
