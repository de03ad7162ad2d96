//! Sums of multiples of integers: `kernels/integers/sums.cuh`.

use super::{
    carries::{CarryScratch, CarryTiles, LimbRows, QUAD, fault},
    kernels::WordVector,
    limb_kernels::{LimbKernels, SUM_TERMS_MAX, SumTerms},
};
use crate::device::{DeviceFault, DeviceLease, Stream};

/// Integers, and what they are multiplied by.
#[derive(Clone, Copy)]
pub struct LimbTerm<'a> {
    /// Rows of limbs, one after another.
    pub limbs: WordVector<'a>,
    /// Limbs of a row.
    pub length: u32,
    pub factor: i64,
}

impl LimbKernels {
    /// Sets each row of `out` to the sum of the terms' multiples, modulo 2^32 to the power of the
    /// row's length. Working memory comes from `lease`, given its bytes.
    ///
    /// Shape: 1 to 8 terms, with as many rows as `out` and in other memory. The magnitudes of the
    /// factors add up to less than 2^32.
    /// Errors: `KernelMismatch` for other shapes; those of `lease` and of launches.
    pub fn launch_sum(
        &self,
        stream: &Stream,
        terms: &[LimbTerm<'_>],
        out: LimbRows<'_>,
        lease: impl Fn(u64) -> Result<DeviceLease, DeviceFault>,
    ) -> Result<(), DeviceFault> {
        let LimbRows { rows, length, .. } = out;
        let has_rows = |term: &LimbTerm<'_>| {
            term.limbs.len() as u64 == u64::from(rows) * u64::from(term.length)
        };
        let fits = (1..=SUM_TERMS_MAX).contains(&terms.len()) && terms.iter().all(has_rows);
        let magnitudes: u128 =
            terms.iter().map(|term| u128::from(term.factor.unsigned_abs())).sum();
        if !fits || magnitudes > u32::MAX.into() || !out.is_possible() {
            return Err(fault("terms do not match their sum"));
        }
        if length == 0 || rows == 0 {
            return Ok(());
        }
        let tiles = CarryTiles::new(rows, 1, length.next_multiple_of(QUAD as u32), length);
        let blocks = tiles.blocks().ok_or_else(|| fault("too many tiles"))?;
        let scratch = CarryScratch::new(tiles, lease)?;
        let flags = scratch.flags(tiles)?;
        let mut sum: SumTerms = [0; 2 * SUM_TERMS_MAX + 2];
        sum[2 * SUM_TERMS_MAX] = terms.len() as u32;
        for (at, term) in terms.iter().enumerate() {
            sum[at] = term.factor.unsigned_abs() as u32;
            sum[SUM_TERMS_MAX + at] = term.length;
            sum[2 * SUM_TERMS_MAX + 1] |= u32::from(term.factor < 0) << at;
        }
        // Pointers of missing terms are not read.
        let vector = |at: usize| terms.get(at).unwrap_or(&terms[0]).limbs;
        let [v0, v1, v2, v3, v4, v5, v6, v7] = std::array::from_fn(vector);
        let (limbs, row_stride) = (out.limbs.vector, out.limbs.stride as u64);
        let given = (v0, v1, v2, v3, v4, v5, v6, v7, sum, limbs, row_stride, length, flags);
        self.sum.launch(stream, blocks, given)?;
        tiles.launch_carries(self, stream, &scratch, out)
    }
}
