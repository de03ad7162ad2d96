//! Scans of rows. Division by X - z is one by Horner's rule: chunks of a row are reduced to their
//! values at z, a division of these by X - z^n yields the values of all coefficients above each
//! chunk, and every chunk is then divided from its top. Prefix products multiply chunks, the prefix
//! products of these yield what is below each chunk, and every chunk is then multiplied from its
//! first element.
//!
//! Per element, that is two products, by a constant in divisions, 64 bytes read and 32 written.

use ark_ff::Field;

use super::{
    DeviceVector, ElementPtr, THREADS, common_length, grid, montgomery, row_length, shoup_multiples,
};
use crate::{
    curve::Fr,
    device::{
        BlockShape, DeviceArena, DeviceFault, Gpu, GpuUnavailable, Kernel, KernelModule, Stream,
    },
    ntt::elements::{DeviceFr, ELEMENT_BYTES},
};

/// Parameters: coefficients, suffixes, sums, weights, length, chunks, coefficients per chain,
/// precomputed multiples of the point, the point's powers for the scan.
#[rustfmt::skip]
type SuffixesKernel = Kernel<(
    ElementPtr, ElementPtr, ElementPtr, ElementPtr, u64, u32, u32, [DeviceFr; 2],
    [DeviceFr; LG_THREADS],
)>;
/// Parameters: coefficients, out, suffixes, carries, weights, length, chunks, coefficients per
/// chain, precomputed multiples of the point.
#[rustfmt::skip]
type DivideKernel = Kernel<(
    ElementPtr, ElementPtr, ElementPtr, ElementPtr, ElementPtr, u64, u32, u32, [DeviceFr; 2],
)>;

const LG_THREADS: usize = THREADS.ilog2() as usize;
/// Chains, one per thread, have a multiple of this many coefficients.
const CHAIN_STEP: u64 = 4;
/// The most coefficients per chain, to amortise the block's scan of about 7 products and barriers.
/// Not measured.
const CHAIN_MAX: u64 = 64;
/// Rows with chains of at most this many coefficients are one chunk: a second level takes longer
/// than such a chain. Not measured.
const CHAIN_MAX_OF_ONE_CHUNK: u64 = 16;

/// Parameters: elements, prefixes, products, length, chunks, elements per chain.
type ChainProductsKernel = Kernel<(ElementPtr, ElementPtr, ElementPtr, u64, u32, u32)>;
/// Parameters: elements, out, prefixes, carries, length, chunks, elements per chain.
#[rustfmt::skip]
type PrefixProductsKernel = Kernel<(
    ElementPtr, ElementPtr, ElementPtr, ElementPtr, u64, u32, u32,
)>;

pub(super) struct RowScans {
    suffixes: SuffixesKernel,
    divide: DivideKernel,
    chain_products: ChainProductsKernel,
    prefix_products: PrefixProductsKernel,
    arena: DeviceArena,
    /// Half of the resident blocks keep the multipliers busy; longer chains need fewer scans.
    blocks: u64,
}

impl RowScans {
    pub fn load(gpu: &Gpu) -> Result<Self, GpuUnavailable> {
        let identity = gpu.identity();
        let failed = |fault| GpuUnavailable::Device { index: identity.index, fault };
        let module = KernelModule::load(gpu.context(), "ntt/scans")?;
        let block = BlockShape::threads(THREADS);
        let divide: DivideKernel = module.kernel("fr_divide_by_linear", block).map_err(failed)?;
        let resident = divide.resident_blocks().map_err(failed)?;
        Ok(Self {
            suffixes: module.kernel("fr_horner_suffixes", block).map_err(failed)?,
            divide,
            chain_products: module.kernel("fr_chain_products", block).map_err(failed)?,
            prefix_products: module.kernel("fr_prefix_products", block).map_err(failed)?,
            arena: gpu.arena().clone(),
            blocks: u64::from(identity.limits.multiprocessors * resident.div_ceil(2)),
        })
    }

    pub fn divide_by_linear(
        &self,
        stream: &Stream,
        out: DeviceVector<'_>,
        coefficients: DeviceVector<'_>,
        rows: usize,
        point: Fr,
    ) -> Result<(), DeviceFault> {
        if common_length(out, &[coefficients])? == 0 {
            return Ok(());
        }
        let length = row_length(coefficients, rows)?;
        let per_chain = chain_length(rows as u64, length as u64, self.blocks);
        let chunks = (length as u64).div_ceil(per_chain * u64::from(THREADS)) as usize;
        let blocks = rows * chunks;
        let chains = rows * chunks * THREADS as usize;
        let (sums, weights) = if chunks > 1 { (blocks, THREADS as usize) } else { (0, 0) };
        let elements = (chains + sums + weights) as u64;
        let scratch = self.arena.lease(stream, elements * ELEMENT_BYTES)?;
        let part = |first, count| scratch.all().slice(first, count).expect("inside the lease");
        let suffixes = part(0, chains);
        let (sums, weights) = (part(chains, sums), part(chains + sums, weights));

        let mut high_point = point.pow([per_chain]);
        let powers = [(); LG_THREADS].map(|()| {
            let power = montgomery(high_point);
            high_point.square_in_place();
            power
        });
        let multiples = shoup_multiples(point);
        let grid = grid(blocks as u64)?;
        let length = length as u64;
        let chunks = chunks as u32;
        let each = per_chain as u32;
        let arguments =
            (coefficients, suffixes, sums, weights, length, chunks, each, multiples, powers);
        self.suffixes.launch(stream, grid, arguments)?;
        self.divide_by_linear(stream, sums, sums, rows, high_point)?;
        let carries = sums;
        let arguments =
            (coefficients, out, suffixes, carries, weights, length, chunks, each, multiples);
        self.divide.launch(stream, grid, arguments)
    }

    pub fn prefix_products(
        &self,
        stream: &Stream,
        out: DeviceVector<'_>,
        elements: DeviceVector<'_>,
        rows: usize,
    ) -> Result<(), DeviceFault> {
        if common_length(out, &[elements])? == 0 {
            return Ok(());
        }
        let length = row_length(elements, rows)? as u64;
        let each = chain_length(rows as u64, length, self.blocks);
        let chunks = length.div_ceil(each * u64::from(THREADS)) as usize;
        let blocks = rows * chunks;
        let chains = blocks * THREADS as usize;
        let products = if chunks > 1 { blocks } else { 0 };
        let scratch = self.arena.lease(stream, (chains + products) as u64 * ELEMENT_BYTES)?;
        let part = |first, count| scratch.all().slice(first, count).expect("inside the lease");
        let prefixes = part(0, chains);
        let products = part(chains, products);
        let grid = grid(blocks as u64)?;
        let chunks = chunks as u32;
        let each = each as u32;
        let arguments = (elements, prefixes, products, length, chunks, each);
        self.chain_products.launch(stream, grid, arguments)?;
        self.prefix_products(stream, products, products, rows)?;
        let arguments = (elements, out, prefixes, products, length, chunks, each);
        self.prefix_products.launch(stream, grid, arguments)
    }
}

/// The number of coefficients per chain: short enough for `blocks` blocks, long enough for no more.
fn chain_length(rows: u64, length: u64, blocks: u64) -> u64 {
    let threads = u64::from(THREADS);
    let one_chunk = length.div_ceil(threads);
    let enough = (rows * length).div_ceil(threads * blocks);
    let chosen =
        if one_chunk <= CHAIN_MAX_OF_ONE_CHUNK { one_chunk } else { enough.min(one_chunk) };
    chosen.next_multiple_of(CHAIN_STEP).clamp(CHAIN_STEP, CHAIN_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const H200_BLOCKS: u64 = 132 * 4;

    #[test]
    fn chains_are_multiples_of_the_step_and_no_longer_than_the_row_needs() {
        for length in (0..=30).flat_map(|lg: u32| [(1_u64 << lg) - 1, 1 << lg, (1 << lg) + 1]) {
            for (rows, blocks) in [(1, 8), (7, 8), (1, H200_BLOCKS), (1000, H200_BLOCKS)] {
                let chain = chain_length(rows, length, blocks);
                assert!(
                    (CHAIN_STEP..=CHAIN_MAX).contains(&chain) && chain.is_multiple_of(CHAIN_STEP)
                );
                let least = length.div_ceil(THREADS.into()).next_multiple_of(CHAIN_STEP);
                assert!(chain <= least.max(CHAIN_STEP), "{rows} rows of {length}: {chain}");
            }
        }
    }

    /// On an H200, up to 2^24 coefficients take two levels, and 2^30 take three.
    #[test]
    fn levels_are_few() {
        let chunks = |length: u64| {
            length.div_ceil(chain_length(1, length, H200_BLOCKS) * u64::from(THREADS))
        };
        for lg_n in 0..=24 {
            assert_eq!(chunks(chunks(1 << lg_n)), 1, "2^{lg_n}");
        }
        assert_eq!([20, 22, 24].map(|lg_n| chunks(1 << lg_n)), [512, 512, 2048]);
        assert_eq!(chunks(chunks(chunks(1 << 30))), 1);
    }
}
