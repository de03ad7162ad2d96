//! Matrices of bits in device memory.

use crate::device::{DevicePtr, DeviceSlice};

/// Columns of a strip.
pub const STRIP_COLUMNS: u32 = 256;

/// 256 bits of a row, the lowest column in the lowest bit.
pub type DeviceRow = [u32; 8];

/// Kernels' parameters: rows in strips, and words.
pub type RowPtr = DevicePtr<DeviceRow>;
pub type WordPtr = DevicePtr<u32>;

/// The numbers of rows and columns of a matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceBitsShape {
    pub rows: u32,
    pub columns: u32,
}

/// A matrix in device memory: strip by strip, the rows of a strip.
#[derive(Clone, Copy)]
pub struct DeviceBits<'a> {
    pub shape: DeviceBitsShape,
    pub lines: DeviceSlice<'a, DeviceRow>,
}

impl DeviceBitsShape {
    pub const fn strips(self) -> u32 {
        self.columns.div_ceil(STRIP_COLUMNS)
    }

    /// 32-bit words of a packed row, which has whole words of 64 bits.
    pub const fn packed_words(self) -> u32 {
        2 * self.columns.div_ceil(64)
    }

    /// Bytes of all strips.
    pub const fn bytes(self) -> u64 {
        (self.lines() * size_of::<DeviceRow>()) as u64
    }

    /// Parts of rows in all strips.
    pub const fn lines(self) -> usize {
        self.strips() as usize * self.rows as usize
    }
}

impl<'a> DeviceBits<'a> {
    /// The lines of the strips from `strip` on, which exists.
    pub fn starting_at_strip(&self, strip: u32) -> DeviceSlice<'a, DeviceRow> {
        let first = strip as usize * self.shape.rows as usize;
        self.lines.slice(first, self.shape.lines() - first).expect("the strip exists")
    }
}
