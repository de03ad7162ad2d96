//! Twiddle tables in device memory: computed on the host, and cached for later transforms.

use std::sync::Arc;

use super::{
    elements::{root_of_unity, twiddle},
    shapes::PassShape,
};
use crate::{
    device::{DeviceArena, DeviceFault, DeviceLease, Gpu, GpuUnavailable, StagingRing, Stream},
    field::{Arithmetic, Element31, Field31},
    ntt::LruCache,
};

/// The contents of a table.
#[derive(Clone, PartialEq)]
enum Table31Key {
    Digits(DigitTwiddles31),
    Small(DigitTwiddles31),
    Starts(ColumnPowers),
    Steps(ColumnPowers),
    Factors(PassFactors),
}

/// Twiddles between the digits of a pass.
#[derive(Clone, PartialEq)]
pub(super) struct DigitTwiddles31 {
    pub field: Field31,
    pub shape: PassShape,
    pub inverse: bool,
}

/// `scale column^c (row root^c)^e` for column c, with the root of order 2^lg_block: e is the bit
/// reversal of the thread's number in `starts`, and the threads that share a column, or twice as
/// many, in `steps`, which have neither `column` nor `scale`.
#[derive(Clone, PartialEq)]
pub(super) struct ColumnPowers {
    pub field: Field31,
    pub lg_block: u32,
    pub shape: PassShape,
    pub inverse: bool,
    pub column: Element31,
    pub row: Element31,
    pub scale: Element31,
}

/// `scale base^i` for i below 2^lg_r, in natural or bit-reversed order.
#[derive(Clone, PartialEq)]
pub(super) struct PassFactors {
    pub field: Field31,
    pub lg_r: u32,
    pub base: Element31,
    pub scale: Element31,
    pub is_reversed: bool,
}

pub(super) struct TwiddleTables31 {
    arena: DeviceArena,
    ring: StagingRing,
    stream: Stream,
    cache: LruCache<Table31Key, DeviceLease>,
}

impl TwiddleTables31 {
    pub fn new(gpu: &Gpu, bytes_max: u64) -> Result<Self, GpuUnavailable> {
        let stream = Stream::new(gpu.context());
        let failed = |fault| GpuUnavailable::Device { index: gpu.identity().index, fault };
        let (arena, ring) = (gpu.arena().clone(), gpu.ring().clone());
        Ok(Self { arena, ring, stream: stream.map_err(failed)?, cache: LruCache::new(bytes_max) })
    }

    /// For each digit but the last: entry `l << below | i` is root^(i reversed(l)), where `below`
    /// stages follow and the root has the order of the digit's and those stages.
    pub fn digits(&self, key: DigitTwiddles31) -> Result<Arc<DeviceLease>, DeviceFault> {
        let DigitTwiddles31 { field, shape, inverse } = key;
        self.get(Table31Key::Digits(key), || {
            let mut entries = Vec::new();
            let mut below = shape.lg_r;
            for digit in shape.digits() {
                let root = root_of_unity(field, below, inverse);
                below -= digit;
                if below == 0 {
                    break;
                }
                for l in 0..1 << digit {
                    let base = field.power(root, reversed(l, digit));
                    let row = powers(field, field.one(), base, 1 << below);
                    entries.extend(row.map(|power| twiddle(field, power)));
                }
            }
            entries
        })
    }

    /// Powers of the root of a small transform, as many as a stage has butterflies.
    pub fn small(&self, key: DigitTwiddles31) -> Result<Arc<DeviceLease>, DeviceFault> {
        let DigitTwiddles31 { field, shape, inverse } = key;
        self.get(Table31Key::Small(key), || {
            let root = root_of_unity(field, shape.lg_r, inverse);
            let all = powers(field, field.one(), root, 1 << (shape.lg_r - 1));
            all.map(|power| twiddle(field, power)).collect()
        })
    }

    pub fn starts(&self, key: ColumnPowers) -> Result<Arc<DeviceLease>, DeviceFault> {
        let ColumnPowers { field, lg_block, shape, inverse, column, row, scale } = key;
        let (lg_threads, lg_columns) = (shape.lg_r - shape.last_digit(), lg_block - shape.lg_r);
        self.get(Table31Key::Starts(key), || {
            let root = root_of_unity(field, lg_block, inverse);
            let of_thread = |thread: u64| {
                let exponent = reversed(thread, lg_threads);
                let base = field.multiply(column, field.power(root, exponent));
                let first = field.multiply(scale, field.power(row, exponent));
                powers(field, first, base, 1 << lg_columns)
            };
            (0..1 << lg_threads).flat_map(of_thread).collect()
        })
    }

    pub fn steps(&self, key: ColumnPowers) -> Result<Arc<DeviceLease>, DeviceFault> {
        let ColumnPowers { field, lg_block, shape, inverse, row, .. } = key;
        let (column, scale) = (field.one(), field.one());
        let key = Table31Key::Steps(ColumnPowers { column, scale, ..key });
        self.get(key, || {
            let exponent = 1 << (shape.lg_r - shape.last_digit());
            let base = field.power(root_of_unity(field, lg_block, inverse), exponent);
            let steps =
                powers(field, field.power(row, exponent), base, 1 << (lg_block - shape.lg_r));
            let with_square =
                |step| [step, field.multiply(step, step)].map(|power| twiddle(field, power));
            steps.map(with_square).collect()
        })
    }

    pub fn factors(&self, key: PassFactors) -> Result<Arc<DeviceLease>, DeviceFault> {
        let PassFactors { field, lg_r, base, scale, is_reversed } = key;
        self.get(Table31Key::Factors(key), || {
            let natural: Vec<u64> =
                powers(field, scale, base, 1 << lg_r).map(|power| twiddle(field, power)).collect();
            if !is_reversed {
                return natural;
            }
            (0..1 << lg_r).map(|i| natural[reversed(i, lg_r) as usize]).collect()
        })
    }

    /// Evicts all tables, so that later plans build them again, in case one is corrupt.
    pub fn evict_all(&self) {
        self.cache.clear();
    }

    fn get<T: bytemuck::Pod>(
        &self,
        key: Table31Key,
        entries: impl FnOnce() -> Vec<T>,
    ) -> Result<Arc<DeviceLease>, DeviceFault> {
        let bytes = key.bytes();
        self.cache.get_or_build(&key, bytes, || {
            let lease = loop {
                match self.arena.lease(&self.stream, bytes) {
                    Err(DeviceFault::OutOfMemory { .. }) if self.cache.evict_oldest() => {}
                    done => break done?,
                }
            };
            let entries = entries();
            let bytes = bytemuck::cast_slice(&entries);
            self.ring.upload(&self.stream, lease.all()).write(bytes)?;
            Ok(lease)
        })
    }
}

impl Table31Key {
    fn bytes(&self) -> u64 {
        match self {
            Self::Digits(DigitTwiddles31 { shape, .. }) => {
                let mut below = shape.lg_r;
                let tables = shape.digits().map(|digit| {
                    let entries = 1 << below;
                    below -= digit;
                    if below > 0 { entries } else { 0 }
                });
                8 * tables.sum::<u64>()
            }
            Self::Small(DigitTwiddles31 { shape, .. }) => 8 << (shape.lg_r - 1),
            Self::Starts(ColumnPowers { lg_block, shape, .. }) => {
                4 << (lg_block - shape.last_digit())
            }
            Self::Steps(ColumnPowers { lg_block, shape, .. }) => 16 << (lg_block - shape.lg_r),
            Self::Factors(PassFactors { lg_r, .. }) => 8 << lg_r,
        }
    }
}

/// `first`, `first base`, ..., `first base^(count - 1)`.
fn powers(
    field: Field31,
    first: Element31,
    base: Element31,
    count: usize,
) -> impl Iterator<Item = Element31> {
    let next = move |power: &Element31| Some(field.multiply(*power, base));
    std::iter::successors(Some(first), next).take(count)
}

/// The lowest `bits` bits of a number below 2^`bits`, in reverse order.
const fn reversed(number: u64, bits: u32) -> u64 {
    if bits == 0 { 0 } else { number.reverse_bits() >> (64 - bits) }
}
