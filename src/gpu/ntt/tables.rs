//! Twiddle tables in device memory: built there, and cached for later transforms.

use std::sync::Arc;

use ark_ff::{AdditiveGroup, Field, PrimeField};

use super::{
    elements::{DeviceFr, ELEMENT_BYTES, ElementPtr},
    lru::LruCache,
    passes::LG_ROW_MAX,
    table_budget::TableBudget,
    twiddles::{
        FusedTwiddles, InterPassTwiddles, RowFactors, TileTwiddles, inverse_of_size, root_of_unity,
        square_times,
    },
};
use crate::{
    curve::{Fr, layout},
    device::{
        BlockShape, DeviceArena, DeviceFault, DeviceLease, DeviceSlice, Gpu, GpuUnavailable,
        Kernel, KernelModule, StagingRing, Stream,
    },
};

/// Parameters: table, powers, multiples, lg_p, lg_k, lg_step, plane, group_stride.
type BuildTwiddlesKernel = Kernel<(ElementPtr, ElementPtr, u32, u32, u32, u32, u32, u32)>;
/// Parameters: weights, scratch, powers_and_scale, lg_n, lg_each, reversed.
type BuildWeightsKernel = Kernel<(ElementPtr, ElementPtr, ElementPtr, u32, u32, u32)>;

/// Threads per block, as the kernels are compiled. Not measured: tables are built once and cached.
const THREADS: u32 = 128;
/// Entries per plane of step twiddles, as in `kernels/ntt/twiddles.cuh`.
const PLANE: u32 = 2048 + 8;
/// Entries whose pieces are contiguous in tables of fused twiddles: `kernels/ntt/fused.cuh`.
const GROUP_ENTRIES: u32 = 8;
/// Squares of a base that the kernel reads: exponents are below 2^32.
const SQUARES: usize = 32;
/// log2 of the weights per batch inversion.
const LG_BATCH_INVERSION: u32 = 5;

/// The contents of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum TableKey {
    Tile(TileTwiddles),
    Fused(FusedTwiddles),
    Rows(RowFactors),
    InterPass(InterPassTwiddles),
    Powers(PowerTable),
    Weights(BarycentricWeights),
}

/// Powers of `base` with exponents below 2^lg_n, in Montgomery form, bit-reversed or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct PowerTable {
    pub lg_n: u32,
    pub base: Fr,
    pub reversed: bool,
}

/// `(point^n - 1) / n * root^j / (point - root^j)` for j below n = 2^lg_n and the root of order n,
/// in Montgomery form, in natural or bit-reversed order of j.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct BarycentricWeights {
    pub lg_n: u32,
    pub point: Fr,
    pub reversed: bool,
}

pub(super) struct TwiddleTable {
    lease: DeviceLease,
    /// For inter-pass tables: log2 of the columns that the first level distinguishes.
    pub lg_first_level: u32,
}

impl TwiddleTable {
    pub fn all(&self) -> DeviceSlice<'_, DeviceFr> {
        self.lease.all()
    }
}

pub(super) struct TwiddleTables {
    arena: DeviceArena,
    ring: StagingRing,
    stream: Stream,
    build_twiddles: BuildTwiddlesKernel,
    build_weights: BuildWeightsKernel,
    pub cache: LruCache<TableKey, TwiddleTable>,
}

/// Entries of a table that one launch builds: see `kernels/ntt/tables.cu`.
struct TablePart {
    /// Index of the first element.
    offset: u64,
    lg_p: u32,
    lg_k: u32,
    lg_step: u32,
    multiples: u32,
    plane: u32,
    /// Pieces from one group of eight entries to the next, in planes.
    group_stride: u32,
    root: Fr,
    column: Fr,
    row: Fr,
    scale: Fr,
}

/// Precomputed (Shoup-style) multiples of twiddles within a tile, by lg_e: more elements per thread
/// leave no registers for more. Four are 2 % faster than two (`benches/experiments/ntt.md`).
const fn tile_multiples(lg_e: u32) -> u32 {
    if lg_e == 2 { 4 } else { 2 }
}

impl TwiddleTables {
    pub fn load(gpu: &Gpu, bytes_max: u64) -> Result<Self, GpuUnavailable> {
        let failed = |fault| GpuUnavailable::Device { index: gpu.identity().index, fault };
        let module = |name| KernelModule::load(gpu.context(), name);
        let block = BlockShape::threads(THREADS);
        let twiddles = module("ntt/tables")?.kernel("ntt_twiddles", block);
        let weights = module("ntt/evaluate")?.kernel("barycentric_weights", block);
        Ok(Self {
            arena: gpu.arena().clone(),
            ring: gpu.ring().clone(),
            stream: Stream::new(gpu.context()).map_err(failed)?,
            build_twiddles: twiddles.map_err(failed)?,
            build_weights: weights.map_err(failed)?,
            cache: LruCache::new(bytes_max),
        })
    }

    pub fn tile(&self, tile: TileTwiddles) -> Result<Arc<TwiddleTable>, DeviceFault> {
        let TileTwiddles { lg_e, inverse, scaled } = tile;
        let multiples = tile_multiples(lg_e);
        let elements = u64::from(multiples * PLANE);
        self.get(TableKey::Tile(tile), elements, 0, |table| {
            let lg_sizes = (2..).map(|i| i * lg_e).take_while(|lg_m| *lg_m <= LG_ROW_MAX);
            let part = |lg_m: u32| TablePart {
                offset: (1 << lg_m) / 2, // a plane's entry is half an element
                plane: PLANE,
                root: root_of_unity(lg_m, inverse),
                scale: scaled.filter(|top| top.lg_r == lg_m).map_or(Fr::ONE, |top| top.scale),
                ..TablePart::new(lg_e, lg_m - lg_e, multiples)
            };
            lg_sizes.map(part).try_for_each(|part| self.fill(table, &part))
        })
    }

    /// Laid out as in `kernels/ntt/fused.cuh` and `kernels/ntt/fused_rows.cuh`.
    pub fn fused(&self, fused: FusedTwiddles) -> Result<Arc<TwiddleTable>, DeviceFault> {
        let FusedTwiddles { lg_above, lg_r, inverse, base, last_step_multiples } = fused;
        let steps = lg_r / 2;
        let is_last = |step: u32| last_step_multiples > 0 && step + 1 == steps;
        let multiples =
            |step: u32| if is_last(step) { last_step_multiples } else { tile_multiples(2) };
        let blocks = 1_u64 << lg_above.max(GROUP_ENTRIES.ilog2());
        // Elements of a step: three twiddles per block.
        let step_elements = |step: u32| (u64::from(3 * multiples(step)) * blocks) << (2 * step);
        let elements = (0..steps).map(step_elements).sum();
        self.get(TableKey::Fused(fused), elements, 0, |table| {
            let power = |stage: u32| square_times(base, lg_r - 1 - stage);
            let quarter = root_of_unity(2, inverse);
            (0..steps).try_for_each(|step| {
                let lg_p = lg_above + 2 * step;
                let (first, second) = (power(2 * step), power(2 * step + 1));
                let (half, fourth) =
                    (root_of_unity(lg_p + 1, inverse), root_of_unity(lg_p + 2, inverse));
                // Scale, and the base that is raised to the bit reversal of the block's number.
                let factors = match is_last(step) {
                    false => [(first, half), (second, fourth), (second * quarter, fourth)],
                    true => [(second, fourth), (first, half), (first * second, half * fourth)],
                };
                let multiples = multiples(step);
                let start: u64 = (0..step).map(step_elements).sum();
                (0_u64..).zip(factors).try_for_each(|(number, (scale, row))| {
                    let offset = start + number * u64::from(multiples * GROUP_ENTRIES);
                    let plane = GROUP_ENTRIES;
                    let group_stride = 6 * multiples * GROUP_ENTRIES;
                    let plain = TablePart::new(lg_p, 0, multiples);
                    self.fill(
                        table,
                        &TablePart { offset, plane, group_stride, row, scale, ..plain },
                    )
                })
            })
        })
    }

    pub fn rows(&self, rows: RowFactors) -> Result<Arc<TwiddleTable>, DeviceFault> {
        let RowFactors { lg_r, lg_e, reversed, base, scale } = rows;
        let multiples = tile_multiples(lg_e);
        let elements = u64::from(multiples * PLANE);
        self.get(TableKey::Rows(rows), elements, 0, |table| {
            let powers = TablePart::powers_of(base, lg_r, reversed, multiples);
            self.fill(table, &TablePart { plane: PLANE, scale, ..powers })
        })
    }

    pub fn budget(&self) -> TableBudget {
        TableBudget { table_bytes_max: self.cache.bytes_max() }
    }

    pub fn inter_pass(&self, key: InterPassTwiddles) -> Result<Arc<TwiddleTable>, DeviceFault> {
        let InterPassTwiddles { lg_block, lg_r, multiples, inverse, column, row, scale } = key;
        let lg_columns = lg_block - lg_r;
        let is_whole = self.budget().fits_one_level(lg_block, multiples);
        let lg_low = if is_whole { lg_columns } else { lg_columns.div_ceil(2) };
        let first_level = u64::from(multiples) << (lg_r + lg_low);
        let second_level = u64::from(multiples) << (lg_block - lg_low);
        let elements = if is_whole { first_level } else { first_level + second_level };
        self.get(TableKey::InterPass(key), elements, lg_low, |table| {
            let root = root_of_unity(lg_block, inverse);
            let first =
                TablePart { root, column, row, scale, ..TablePart::new(lg_r, lg_low, multiples) };
            self.fill(table, &first)?;
            if is_whole {
                return Ok(());
            }
            let second = TablePart {
                offset: first_level,
                lg_k: lg_columns - lg_low,
                lg_step: lg_low,
                row: Fr::ONE,
                scale: Fr::ONE,
                ..first
            };
            self.fill(table, &second)
        })
    }

    pub fn powers(&self, powers: PowerTable) -> Result<Arc<TwiddleTable>, DeviceFault> {
        let PowerTable { lg_n, base, reversed } = powers;
        self.get(TableKey::Powers(powers), 1 << lg_n, 0, |table| {
            self.fill(table, &TablePart::powers_of(base, lg_n, reversed, 1))
        })
    }

    pub fn weights(&self, weights: BarycentricWeights) -> Result<Arc<TwiddleTable>, DeviceFault> {
        let BarycentricWeights { lg_n, point, reversed } = weights;
        self.get(TableKey::Weights(weights), 1 << lg_n, 0, |table| {
            let root = root_of_unity(lg_n, false);
            let scale = (square_times(point, lg_n) - Fr::ONE) * inverse_of_size(lg_n);
            let factors: Vec<Fr> = squares(root).chain([point, scale]).collect();
            let factors = self.upload(&factors)?;
            let scratch = self.arena.lease(&self.stream, ELEMENT_BYTES << lg_n)?;
            let lg_each = LG_BATCH_INVERSION.min(lg_n);
            let grid = (1_u32 << (lg_n - lg_each)).div_ceil(THREADS);
            let arguments =
                (table.all(), scratch.all(), factors.all(), lg_n, lg_each, reversed.into());
            self.build_weights.launch(&self.stream, grid, arguments)
        })
    }

    fn get(
        &self,
        key: TableKey,
        elements: u64,
        lg_first_level: u32,
        build: impl FnOnce(&DeviceLease) -> Result<(), DeviceFault>,
    ) -> Result<Arc<TwiddleTable>, DeviceFault> {
        let bytes = elements * ELEMENT_BYTES;
        self.cache.get_or_build(&key, bytes, || {
            let lease = loop {
                match self.arena.lease(&self.stream, bytes) {
                    Err(DeviceFault::OutOfMemory { .. }) if self.cache.evict_oldest() => {}
                    done => break done?,
                }
            };
            build(&lease)?;
            Ok(TwiddleTable { lease, lg_first_level })
        })
    }

    fn fill(&self, table: &DeviceLease, part: &TablePart) -> Result<(), DeviceFault> {
        let powers = self.upload(&part.powers())?;
        let &TablePart { offset, lg_p, lg_k, lg_step, multiples, plane, group_stride, .. } = part;
        let all = table.all::<DeviceFr>();
        let first = offset as usize;
        let to = all.slice(first, all.len() - first).expect("a part starts inside its table");
        let entries = 1_u64 << (lg_p + lg_k);
        let grid = u32::try_from(entries.div_ceil(THREADS.into())).expect("at most 2^30 entries");
        let arguments = (to, powers.all(), multiples, lg_p, lg_k, lg_step, plane, group_stride);
        self.build_twiddles.launch(&self.stream, grid, arguments)
    }

    fn upload(&self, values: &[Fr]) -> Result<DeviceLease, DeviceFault> {
        let bytes = layout::fr_as_bytes(values);
        let lease = self.arena.lease(&self.stream, bytes.len() as u64)?;
        self.ring.upload(&self.stream, lease.all()).write(bytes)?;
        Ok(lease)
    }
}

/// `base` to the powers 2^0, 2^1, ...
fn squares(base: Fr) -> impl Iterator<Item = Fr> {
    std::iter::successors(Some(base), |power| Some(power.square())).take(SQUARES)
}

impl TablePart {
    fn new(lg_p: u32, lg_k: u32, multiples: u32) -> Self {
        Self {
            offset: 0,
            lg_p,
            lg_k,
            lg_step: 0,
            multiples,
            plane: 0,
            group_stride: GROUP_ENTRIES,
            root: Fr::ONE,
            column: Fr::ONE,
            row: Fr::ONE,
            scale: Fr::ONE,
        }
    }

    /// The powers of `base` with exponents below 2^lg_n, bit-reversed or not.
    fn powers_of(base: Fr, lg_n: u32, reversed: bool, multiples: u32) -> Self {
        if reversed {
            Self { row: base, ..Self::new(lg_n, 0, multiples) }
        } else {
            Self { column: base, ..Self::new(0, lg_n, multiples) }
        }
    }

    /// The squares of the three bases, and the precomputed multiples of `scale`.
    fn powers(&self) -> Vec<Fr> {
        // See kernels/field/fr.cuh: the stored limbs are the integers themselves.
        let pieces = 8 / u64::from(self.multiples);
        let steps = pieces + u64::from(self.multiples > 1);
        let multiples = (0..u64::from(self.multiples)).map(|j| {
            let multiple = self.scale * Fr::ONE.double().pow([32 * (steps + pieces * j)]);
            Fr::new_unchecked(multiple.into_bigint())
        });
        let bases = [self.root, self.column, self.row];
        bases.into_iter().flat_map(squares).chain(multiples).collect()
    }
}
