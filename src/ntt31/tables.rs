//! Twiddle tables in device memory: computed on the host, and cached for later transforms.

use std::sync::Arc;

use super::{
    elements::{root_of_unity, twiddle},
    kernels::lg_first_digit,
};
use crate::{
    device::{DeviceArena, DeviceFault, DeviceLease, Gpu, GpuUnavailable, StagingRing, Stream},
    field::{Arithmetic, Element31, Field31},
    ntt::LruCache,
};

/// The contents of a table.
#[derive(Clone, PartialEq)]
enum Table31Key {
    Tile(TileTwiddles31),
    Starts(ColumnPowers),
    Steps(ColumnPowers),
    Factors(PassFactors),
}

/// Twiddles between the two digits of a tile.
#[derive(Clone, PartialEq)]
pub(super) struct TileTwiddles31 {
    pub field: Field31,
    pub lg_r: u32,
    pub inverse: bool,
}

/// `column^c (root^c row)^e` for column c, with the root of order 2^lg_block: e is the bit reversal
/// of the first digit in `starts`, and 2^digit bits in `steps`, which has no `column`.
#[derive(Clone, PartialEq)]
pub(super) struct ColumnPowers {
    pub field: Field31,
    pub lg_block: u32,
    pub lg_r: u32,
    pub inverse: bool,
    pub column: Element31,
    pub row: Element31,
}

/// `scale base^i` for i below 2^lg_r.
#[derive(Clone, PartialEq)]
pub(super) struct PassFactors {
    pub field: Field31,
    pub lg_r: u32,
    pub base: Element31,
    pub scale: Element31,
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

    pub fn tile(&self, tile: TileTwiddles31) -> Result<Arc<DeviceLease>, DeviceFault> {
        let TileTwiddles31 { field, lg_r, inverse } = tile;
        self.get(Table31Key::Tile(tile), 1 << lg_r, || {
            let (lg_first, root) = (lg_first_digit(lg_r), root_of_unity(field, lg_r, inverse));
            let row = |l: u64| {
                let base = field.power(root, reversed(l, lg_first));
                powers(field, field.one(), base, 1 << (lg_r - lg_first))
            };
            (0..1 << lg_first).flat_map(row).map(|power| twiddle(field, power)).collect()
        })
    }

    pub fn starts(&self, key: ColumnPowers) -> Result<Arc<DeviceLease>, DeviceFault> {
        let ColumnPowers { field, lg_block, lg_r, inverse, column, row } = key;
        let (lg_first, lg_columns) = (lg_first_digit(lg_r), lg_block - lg_r);
        self.get(Table31Key::Starts(key), 1 << (lg_first + lg_columns), || {
            let root = root_of_unity(field, lg_block, inverse);
            let of_digit = |digit: u64| {
                let exponent = reversed(digit, lg_first);
                let base = field.multiply(column, field.power(root, exponent));
                powers(field, field.power(row, exponent), base, 1 << lg_columns)
            };
            (0..1 << lg_first).flat_map(of_digit).collect()
        })
    }

    pub fn steps(&self, key: ColumnPowers) -> Result<Arc<DeviceLease>, DeviceFault> {
        let ColumnPowers { field, lg_block, lg_r, inverse, row, .. } = key;
        let lg_columns = lg_block - lg_r;
        let key = Table31Key::Steps(ColumnPowers { column: field.one(), ..key });
        self.get(key, 1 << lg_columns, || {
            let exponent = 1 << lg_first_digit(lg_r);
            let base = field.power(root_of_unity(field, lg_block, inverse), exponent);
            powers(field, field.power(row, exponent), base, 1 << lg_columns).collect()
        })
    }

    pub fn factors(&self, factors: PassFactors) -> Result<Arc<DeviceLease>, DeviceFault> {
        let PassFactors { field, lg_r, base, scale } = factors;
        self.get(Table31Key::Factors(factors), 1 << lg_r, || {
            powers(field, scale, base, 1 << lg_r).map(|power| twiddle(field, power)).collect()
        })
    }

    /// Evicts all tables, so that later plans build them again, in case one is corrupt.
    pub fn evict_all(&self) {
        self.cache.clear();
    }

    fn get<T: bytemuck::Pod>(
        &self,
        key: Table31Key,
        count: u64,
        entries: impl FnOnce() -> Vec<T>,
    ) -> Result<Arc<DeviceLease>, DeviceFault> {
        let bytes = count * size_of::<T>() as u64;
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
