//! The input of a sort.

use crate::msm::Recoding;

/// The input of a sort: the digits of `vectors` times `n` scalars in some of the bucket sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SortShape {
    pub windows: Recoding,
    pub n: u32,
    pub vectors: u32,
    pub first_set: u32,
    pub sets: u32,
}

impl SortShape {
    /// All sets of `vectors` vectors of `n` scalars each.
    ///
    /// Shape: `n <= 2^26`, `vectors >= 1`; `None` otherwise.
    pub fn new(windows: Recoding, n: u32, vectors: u32) -> Option<Self> {
        let sets = windows.sets();
        (n <= 1 << 26 && vectors > 0).then_some(Self { windows, n, vectors, first_set: 0, sets })
    }

    /// Only the sets `first..first + count`. `None` if that range is empty or too long.
    pub fn with_sets(self, first: u32, count: u32) -> Option<Self> {
        let is_inside = first.checked_add(count)? <= self.windows.sets();
        (count > 0 && is_inside).then_some(Self { first_set: first, sets: count, ..self })
    }

    /// Buckets of all vectors; `starts` is one word longer.
    pub fn buckets(&self) -> u64 {
        u64::from(self.vectors) * self.vector_buckets()
    }

    /// Launch bound on the digits, and the length of `references`.
    pub fn digits_max(&self) -> u64 {
        u64::from(self.vectors) * self.vector_digits()
    }

    pub(super) fn vector_buckets(&self) -> u64 {
        u64::from(self.sets) * u64::from(self.windows.buckets())
    }

    pub(super) fn vector_digits(&self) -> u64 {
        u64::from(self.n) * u64::from(self.scalar_digits())
    }

    pub(super) fn scalar_digits(&self) -> u32 {
        self.windows.digits_max(self.first_set, self.sets)
    }

    pub(super) fn narrow_mask(&self) -> u64 {
        match &self.windows {
            Recoding::Fixed(fixed) => fixed.narrow_mask,
            Recoding::Radix(_) | Recoding::Sliding(_) => 0,
        }
    }

    /// The word that `Recoding` in kernels/msm/recode.cuh reads.
    pub(super) fn recoding_word(&self, low_bits: u32) -> u64 {
        let Self { windows, first_set, sets, .. } = self;
        let (bits, count, kind) = match windows {
            Recoding::Fixed(fixed) => (fixed.bits, fixed.count, 0),
            Recoding::Sliding(sliding) => (sliding.bits, 0, 1),
            Recoding::Radix(radix) => (radix.doublings, radix.count, 2),
        };
        let factor = windows.factor();
        let bytes = [bits, count, windows.sets(), *first_set, *sets, low_bits, kind, factor];
        bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
    }
}
