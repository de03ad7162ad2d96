//! Twiddle tables in device memory: built there, and cached for later transforms.

use std::sync::Arc;

use ark_ff::{AdditiveGroup, Field, PrimeField};

use super::{
    DeviceFr,
    lru::LruCache,
    table_budget::TableBudget,
    twiddles::{FusedTwiddles, InterPassTwiddles, RowFactors, TileTwiddles, root_of_unity},
};
use crate::{
    curve::{Fr, layout},
    device::{
        BlockShape, DeviceArena, DeviceFault, DeviceLease, DevicePtr, Gpu, GpuUnavailable, Kernel,
        KernelModule, StagingRing, Stream,
    },
};

/// Parameters: table, powers, kept, lg_p, lg_k, lg_step, plane, apart.
type BuildTwiddlesKernel =
    Kernel<(DevicePtr<DeviceFr>, DevicePtr<DeviceFr>, u32, u32, u32, u32, u32, u32)>;
/// Parameters: weights, scratch, given, lg_n, lg_each, reversed.
type BuildWeightsKernel =
    Kernel<(DevicePtr<DeviceFr>, DevicePtr<DeviceFr>, DevicePtr<DeviceFr>, u32, u32, u32)>;

/// Bytes of an element.
const ELEMENT: u64 = size_of::<DeviceFr>() as u64;
/// Threads per block, as the kernels are compiled. Not measured: tables are built once and cached.
const THREADS: u32 = 128;
/// Entries per plane of step twiddles, as in `kernels/ntt/twiddles.cuh`.
const PLANE: u32 = 2048 + 8;
/// Entries whose pieces are contiguous in tables of fused twiddles: `kernels/ntt/fused.cuh`.
const GROUP_ENTRIES: u32 = 8;
/// log2 of the longest row.
const LG_ROW_MAX: u32 = 10;
/// Squares of a base that the kernel reads: exponents are below 2^32.
const SQUARES: usize = 32;
/// log2 of the weights per batch inversion.
const LG_BATCH_INVERSION: u32 = 5;
/// The cache key: the contents of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum TableKey {
    Steps(TileTwiddles),
    Merged(FusedTwiddles),
    Rows(RowFactors),
    Border(InterPassTwiddles),
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

/// `scale root^j / (point - root^j)` for j below 2^lg_n, in Montgomery form, in natural or
/// bit-reversed order of j.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct BarycentricWeights {
    pub lg_n: u32,
    pub root: Fr,
    pub point: Fr,
    pub scale: Fr,
    pub reversed: bool,
}

/// A table in its lease.
pub(super) struct TwiddleTable {
    lease: DeviceLease,
    /// For inter-pass tables: log2 of the columns that the first level distinguishes.
    pub lg_first_level: u32,
}

impl TwiddleTable {
    pub fn lease(&self) -> &DeviceLease {
        &self.lease
    }
}

/// The tables of one device.
pub(super) struct TwiddleTables {
    arena: DeviceArena,
    ring: StagingRing,
    stream: Stream,
    make: BuildTwiddlesKernel,
    make_weights: BuildWeightsKernel,
    cache: LruCache<TableKey, TwiddleTable>,
}

/// Entries of a table that one launch builds: see `kernels/ntt/tables.cu`.
struct TablePart {
    /// The offset in the table, in elements.
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
/// leave no registers for more. Four instead of two are 2 % faster at 2^20.
const fn tile_multiples(lg_e: u32) -> u32 {
    if lg_e == 2 { 4 } else { 2 }
}

impl TwiddleTables {
    pub fn load(gpu: &Gpu, bytes_max: u64) -> Result<Self, GpuUnavailable> {
        let failed = |fault| GpuUnavailable::Device { index: gpu.identity().index, fault };
        let module = KernelModule::load(gpu.context(), "ntt/tables")?;
        let make = module.kernel("ntt_twiddles", BlockShape::threads(THREADS)).map_err(failed)?;
        let module = KernelModule::load(gpu.context(), "ntt/evaluate")?;
        let make_weights =
            module.kernel("barycentric_weights", BlockShape::threads(THREADS)).map_err(failed)?;
        let stream = Stream::new(gpu.context()).map_err(failed)?;
        let (arena, ring) = (gpu.arena().clone(), gpu.ring().clone());
        Ok(Self { arena, ring, stream, make, make_weights, cache: LruCache::new(bytes_max) })
    }

    pub fn tile(&self, steps: TileTwiddles) -> Result<Arc<TwiddleTable>, DeviceFault> {
        let kept = tile_multiples(steps.lg_e);
        let bytes = u64::from(kept * PLANE) * ELEMENT;
        self.get(TableKey::Steps(steps), bytes, 0, |table| {
            let tops = (2..).map(|i| i * steps.lg_e).take_while(|lg_m| *lg_m <= LG_ROW_MAX);
            let part = |lg_m: u32| {
                let scale = steps.scaled.filter(|(lg_r, _)| *lg_r == lg_m);
                TablePart {
                    offset: (1 << lg_m) / 2, // a plane's entry is half an element
                    plane: PLANE,
                    root: root_of_unity(lg_m, steps.inverse),
                    scale: scale.map_or(Fr::ONE, |(_, scale)| scale),
                    ..TablePart::unscaled(steps.lg_e, lg_m - steps.lg_e, kept)
                }
            };
            tops.map(part).try_for_each(|part| self.fill(table, &part))
        })
    }

    /// Laid out as in `kernels/ntt/fused.cuh` and `kernels/ntt/fused_rows.cuh`.
    pub fn fused(&self, merged: FusedTwiddles) -> Result<Arc<TwiddleTable>, DeviceFault> {
        let FusedTwiddles { lg_above, lg_r, inverse, base, last_step_multiples: last } = merged;
        let steps = lg_r / 2;
        let is_last = |step: u32| last > 0 && step + 1 == steps;
        let kept = |step: u32| if is_last(step) { last } else { tile_multiples(2) };
        let room = 1_u64 << lg_above.max(GROUP_ENTRIES.ilog2());
        // Elements of a step: three twiddles per block.
        let of_step = |step: u32| (u64::from(3 * kept(step)) * room) << (2 * step);
        let elements: u64 = (0..steps).map(of_step).sum();
        self.get(TableKey::Merged(merged), elements * ELEMENT, 0, |table| {
            let power = |stage: u32| (stage + 1..lg_r).fold(base, |power, _| power.square());
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
                (0_u64..).zip(factors).try_for_each(|(f, (scale, row))| {
                    let kept = kept(step);
                    let at =
                        (0..step).map(of_step).sum::<u64>() + f * u64::from(kept * GROUP_ENTRIES);
                    let (plane, apart) = (GROUP_ENTRIES, 6 * kept * GROUP_ENTRIES);
                    let plain = TablePart::unscaled(lg_p, 0, kept);
                    self.fill(
                        table,
                        &TablePart { offset: at, plane, group_stride: apart, row, scale, ..plain },
                    )
                })
            })
        })
    }

    pub fn rows(&self, rows: RowFactors) -> Result<Arc<TwiddleTable>, DeviceFault> {
        let kept = tile_multiples(rows.lg_e);
        let bytes = u64::from(kept * PLANE) * ELEMENT;
        self.get(TableKey::Rows(rows), bytes, 0, |table| {
            let RowFactors { lg_r, base, scale, .. } = rows;
            let part = if rows.reversed {
                TablePart { row: base, ..TablePart::unscaled(lg_r, 0, kept) }
            } else {
                TablePart { column: base, ..TablePart::unscaled(0, lg_r, kept) }
            };
            self.fill(table, &TablePart { plane: PLANE, scale, ..part })
        })
    }

    /// The memory that tables may take.
    pub fn budget(&self) -> TableBudget {
        TableBudget { table_bytes_max: self.cache.bytes_max() }
    }

    pub fn inter_pass(&self, border: InterPassTwiddles) -> Result<Arc<TwiddleTable>, DeviceFault> {
        let InterPassTwiddles { lg_block, lg_r, multiples: kept, inverse, column, row, scale } =
            border;
        let lg_columns = lg_block - lg_r;
        let whole = self.budget().fits_one_level(lg_block, kept);
        let lg_low = if whole { lg_columns } else { lg_columns.div_ceil(2) };
        let first = u64::from(kept) << (lg_r + lg_low);
        let second = u64::from(kept) << (lg_block - lg_low);
        let elements = if whole { first } else { first + second };
        self.get(TableKey::Border(border), elements * ELEMENT, lg_low, |table| {
            let root = root_of_unity(lg_block, inverse);
            let part =
                TablePart { root, column, row, scale, ..TablePart::unscaled(lg_r, lg_low, kept) };
            let (lg_k, lg_step) = (lg_columns - lg_low, lg_low);
            self.fill(table, &part)?;
            if whole {
                return Ok(());
            }
            let one = Fr::ONE;
            self.fill(
                table,
                &TablePart { offset: first, row: one, scale: one, lg_k, lg_step, ..part },
            )
        })
    }

    pub fn powers(&self, powers: PowerTable) -> Result<Arc<TwiddleTable>, DeviceFault> {
        let PowerTable { lg_n, base, reversed } = powers;
        self.get(TableKey::Powers(powers), ELEMENT << lg_n, 0, |table| {
            let part = if reversed {
                TablePart { row: base, ..TablePart::unscaled(lg_n, 0, 1) }
            } else {
                TablePart { column: base, ..TablePart::unscaled(0, lg_n, 1) }
            };
            self.fill(table, &part)
        })
    }

    pub fn weights(&self, weights: BarycentricWeights) -> Result<Arc<TwiddleTable>, DeviceFault> {
        let BarycentricWeights { lg_n, root, point, scale, reversed } = weights;
        let bytes = ELEMENT << lg_n;
        self.get(TableKey::Weights(weights), bytes, 0, |table| {
            let given: Vec<Fr> = squares(root).chain([point, scale]).collect();
            let given = self.upload(&given)?;
            let scratch = self.arena.lease(&self.stream, bytes)?;
            let lg_each = LG_BATCH_INVERSION.min(lg_n);
            let grid = (1_u32 << (lg_n - lg_each)).div_ceil(THREADS);
            let spans = (table.all(), scratch.all(), given.all());
            let given = (spans.0, spans.1, spans.2, lg_n, lg_each, reversed.into());
            self.make_weights.launch(&self.stream, grid, given)
        })
    }

    /// The table with these contents, built if it is not cached.
    fn get(
        &self,
        key: TableKey,
        bytes: u64,
        lg_low: u32,
        make: impl FnOnce(&DeviceLease) -> Result<(), DeviceFault>,
    ) -> Result<Arc<TwiddleTable>, DeviceFault> {
        self.cache.get_or_build(&key, bytes, || {
            let lease = loop {
                match self.arena.lease(&self.stream, bytes) {
                    Err(DeviceFault::OutOfMemory { .. }) if self.cache.evict_oldest() => {}
                    done => break done?,
                }
            };
            make(&lease)?;
            Ok(TwiddleTable { lease, lg_first_level: lg_low })
        })
    }

    fn fill(&self, table: &DeviceLease, part: &TablePart) -> Result<(), DeviceFault> {
        let lease = self.upload(&part.powers())?;
        let (all, at) = (table.all::<DeviceFr>(), part.offset as usize);
        let to = all.slice(at, all.len() - at).expect("a part starts inside its table");
        let entries = 1_u64 << (part.lg_p + part.lg_k);
        let grid = u32::try_from(entries.div_ceil(THREADS.into())).expect("at most 2^30 entries");
        let &TablePart { multiples: kept, lg_p, lg_k, lg_step, plane, group_stride: apart, .. } =
            part;
        let given = (to, lease.all(), kept, lg_p, lg_k, lg_step, plane, apart);
        self.make.launch(&self.stream, grid, given)
    }

    fn upload(&self, values: &[Fr]) -> Result<DeviceLease, DeviceFault> {
        let bytes = layout::fr_as_bytes(values);
        let lease = self.arena.lease(&self.stream, bytes.len() as u64)?;
        self.ring.upload(&self.stream, lease.all()).write(bytes)?;
        Ok(lease)
    }

    /// Evicts all tables.
    pub fn evict_all(&self) {
        self.cache.clear();
    }

    /// Bytes of the cached tables.
    pub fn bytes(&self) -> u64 {
        self.cache.bytes()
    }
}

/// `base` to the powers 2^0, 2^1, ...
fn squares(base: Fr) -> impl Iterator<Item = Fr> {
    std::iter::successors(Some(base), |power| Some(power.square())).take(SQUARES)
}

impl TablePart {
    fn unscaled(lg_p: u32, lg_k: u32, kept: u32) -> Self {
        let (root, column, row, scale) = (Fr::ONE, Fr::ONE, Fr::ONE, Fr::ONE);
        Self {
            offset: 0,
            lg_p,
            lg_k,
            lg_step: 0,
            multiples: kept,
            plane: 0,
            group_stride: GROUP_ENTRIES,
            root,
            column,
            row,
            scale,
        }
    }

    /// The squares of the three bases, and the precomputed multiples of `scale`.
    fn powers(&self) -> Vec<Fr> {
        let mut powers: Vec<Fr> =
            [self.root, self.column, self.row].into_iter().flat_map(squares).collect();
        // See kernels/field/fr.cuh: the stored limbs are the integers themselves.
        let pieces = 8 / u64::from(self.multiples);
        let steps = pieces + u64::from(self.multiples > 1);
        powers.extend((0..u64::from(self.multiples)).map(|j| {
            let multiple = self.scale * Fr::ONE.double().pow([32 * (steps + pieces * j)]);
            Fr::new_unchecked(multiple.into_bigint())
        }));
        powers
    }
}
