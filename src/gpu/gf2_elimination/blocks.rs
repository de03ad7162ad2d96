//! Eliminations of some columns of a matrix at a time, for matrices in the host's memory: how many,
//! and what that takes.

use std::time::Duration;

use super::{
    duration::elimination_time,
    elimination::{GpuEliminationScratch, SOURCE_BYTES},
    strips::{DeviceBitsShape, DeviceRow, STRIP_COLUMNS},
};
use crate::device::DeviceLimits;

/// Bytes of a row in a strip.
const LINE_BYTES: u64 = size_of::<DeviceRow>() as u64;

/// A matrix in the host's memory.
#[derive(Debug, Clone, Copy)]
pub struct HostBitsShape {
    /// The number of pivots that are given.
    pub given: u32,
    /// The number of rows to reduce.
    pub rows: u32,
    /// The number of columns.
    pub columns: u32,
}

impl HostBitsShape {
    fn strips(self) -> u32 {
        self.columns.div_ceil(STRIP_COLUMNS)
    }

    /// Strips of a block: as many as half of a device's memory holds, at least one.
    pub fn block_strips(self, device_bytes: u64) -> u32 {
        let bytes = |strips: u32| {
            let rows = DeviceBitsShape { rows: self.rows, columns: strips * STRIP_COLUMNS };
            // The packed words of pivots or rows, then both in strips.
            let lines = u64::from(self.given) + u64::from(self.rows);
            let packed = u64::from(self.given.max(self.rows));
            let block = u64::from(strips) * LINE_BYTES * (lines + packed);
            block + 4 * u64::from(self.rows) + GpuEliminationScratch::bytes(rows)
        };
        let fixed = bytes(0);
        let per_strip = (bytes(2) - bytes(1)).max(1);
        let fits = (device_bytes / 2).saturating_sub(fixed) / per_strip;
        u32::try_from(fits).unwrap_or(u32::MAX).clamp(1, self.strips().max(1))
    }

    /// Bytes of the host's memory in addition to the matrix: the pivots of each panel and to which
    /// rows they are added, the given pivots by column, and the order of the rows.
    pub fn host_bytes(self) -> u64 {
        let panel = SOURCE_BYTES + u64::from(self.rows) * LINE_BYTES;
        // The given pivot in two forms.
        let per_column = 4 + size_of::<Option<u32>>() as u64;
        // The leading column in two forms, the order, and where each row is while rows are ordered.
        let per_row = per_column + 4 * size_of::<usize>() as u64;
        u64::from(self.strips()) * (panel + per_column * u64::from(STRIP_COLUMNS))
            + u64::from(self.rows) * per_row
    }

    /// The modelled time on the device, and the bytes that are copied to it and from it.
    pub fn time_in_blocks(self, device_bytes: u64, limits: &DeviceLimits) -> (Duration, u64) {
        let (rows, columns) = (u64::from(self.rows), u64::from(self.columns));
        let bytes = |rows: u64| rows * u64::from(self.strips()) * LINE_BYTES;
        let blocks = u64::from(self.strips().div_ceil(self.block_strips(device_bytes)));
        // The rows in both directions; what was found of panels once back, and to each later block.
        let found = bytes(rows) * blocks.saturating_sub(1);
        let found = if blocks > 1 { bytes(rows) + found / 2 } else { 0 };
        let copied = bytes(self.given.into()) + 2 * bytes(rows) + found;
        (elimination_time(rows, columns, limits), copied)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_takes_half_of_a_device() {
        let limits = DeviceLimits::H200;
        let square = HostBitsShape { given: 0, rows: 1 << 18, columns: 1 << 18 };
        // 8 GiB of rows, twice, and 8 MiB of coefficients.
        assert_eq!(square.block_strips(1 << 36), 1024);
        let blocks_of = |gib: u64| 1024_u32.div_ceil(square.block_strips(gib << 30));
        assert_eq!((blocks_of(40), blocks_of(16), blocks_of(8)), (1, 3, 5));
        let (on_device, copied) = square.time_in_blocks(1 << 36, &limits);
        assert_eq!((on_device, copied), (elimination_time(1 << 18, 1 << 18, &limits), 2 << 33));
        // Each of the five blocks is copied twice, and what was found back and to two on average.
        let (same, copied) = square.time_in_blocks(1 << 33, &limits);
        assert_eq!((same, copied), (on_device, 5 << 33));
        // Even one strip does not fit.
        assert_eq!(square.block_strips(1 << 20), 1);
    }
}
