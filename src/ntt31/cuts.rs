//! How a transform is cut into passes.

use super::kernels::lg_lanes;

/// Stages of a pass, in the order they run, by log2 of the length: a single pass up to 2^10, then
/// the fewest passes of at most 9 stages, about equal. A pass of 10 stages needs twice the
/// registers. Not measured on a GPU.
const CUTS: [&[u32]; 28] = [
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
    &[6, 5],
    &[6, 6],
    &[7, 6],
    &[7, 7],
    &[8, 7],
    &[8, 8],
    &[9, 8],
    &[9, 9],
    &[7, 6, 6],
    &[7, 7, 6],
    &[7, 7, 7],
    &[8, 7, 7],
    &[8, 8, 7],
    &[8, 8, 8],
    &[9, 8, 8],
    &[9, 9, 8],
    &[9, 9, 9],
];

/// log2 of the radix of each pass of a transform of 2^`lg_n` elements, in the order they run; none
/// for one element. `None` if no kernels are that long: no prime has so large a two-adicity.
pub fn lg_radices(lg_n: u32) -> Option<&'static [u32]> {
    CUTS.get(lg_n as usize).copied()
}

/// Whether kernels exist for these passes of a transform of 2^`lg_n` elements: each has enough
/// columns, and the last one enough blocks, for its tile.
pub(super) fn passes_fit(lg_n: u32, lg_radices: &[u32]) -> bool {
    if lg_radices.iter().sum::<u32>() != lg_n {
        return false;
    }
    let Some((last, columns)) = lg_radices.split_last() else { return true };
    if columns.is_empty() {
        return (1..=10).contains(last);
    }
    let has_kernel = |lg_r: &u32| (5..=10).contains(lg_r);
    let mut lg_block = lg_n;
    let columns_fit = columns.iter().all(|lg_r| {
        lg_block -= lg_r;
        has_kernel(lg_r) && lg_block >= lg_lanes(*lg_r)
    });
    columns_fit && has_kernel(last) && lg_n - last >= lg_lanes(*last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Prime31;

    #[test]
    fn every_possible_length_has_passes_with_kernels() {
        for lg_n in 0..=Prime31::ALL.iter().map(|prime| prime.two_adicity()).max().unwrap() {
            assert!(passes_fit(lg_n, lg_radices(lg_n).unwrap()), "2^{lg_n}");
        }
        assert!(lg_radices(28).is_none());
    }

    #[test]
    fn passes_without_kernels_are_refused() {
        for passes in [&[11][..], &[4, 7], &[6, 4], &[7, 5, 6], &[]] {
            assert!(!passes_fit(11, passes), "{passes:?}");
        }
    }
}
