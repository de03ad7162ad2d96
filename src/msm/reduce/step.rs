//! The launches, as numbers.

use super::shape::{Shape, Weights};
use crate::curve::Group;

/// Groups of four lanes in a block: as in `kernels/msm/reduce/split_sum.cuh`.
pub(super) const SUM_GROUPS: u32 = 32;

/// Rows and columns before a launch, and by how many bits it shortens them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Halves {
    pub(super) arrays: u32,
    pub(super) lg_rows: u32,
    pub(super) row_bits: u32,
    pub(super) lg_columns: u32,
    pub(super) column_bits: u32,
    /// Points before the first column.
    pub(super) columns_at: u32,
}

impl Halves {
    pub(super) fn row_sums(&self) -> u64 {
        u64::from(self.arrays) << (self.lg_rows - self.row_bits)
    }

    pub(super) fn sums(&self) -> u64 {
        self.row_sums() + (u64::from(self.arrays) << (self.lg_columns - self.column_bits))
    }

    pub(super) fn points(&self) -> u64 {
        (u64::from(self.arrays) << self.lg_rows) + (u64::from(self.arrays) << self.lg_columns)
    }

    /// What is there after the launch.
    pub(super) fn after(&self) -> Self {
        Self {
            lg_rows: self.lg_rows - self.row_bits,
            row_bits: 0,
            lg_columns: self.lg_columns - self.column_bits,
            column_bits: 0,
            columns_at: self.row_sums() as u32,
            ..*self
        }
    }
}

/// How often each point of a period is doubled: see `kernels/msm/reduce/terms.cuh`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ladder {
    pub(super) period: u32,
    pub(super) width: u32,
    pub(super) narrow: u64,
}

impl Ladder {
    /// No point is doubled.
    pub(super) const FLAT: Self = Self { period: 1, width: 0, narrow: 0 };

    /// The terms of a set: each counts twice as much as the one before, but the second as much as
    /// the first, unless buckets are odd digits'.
    pub(super) fn terms(shape: &Shape) -> Self {
        Self { period: shape.terms(), width: 1, narrow: (shape.weights == Weights::All).into() }
    }
}

/// One launch: see `kernels/msm/reduce.cu`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // named as the kernels' parameters are
pub enum Step {
    Slices { halves: Halves, affine: bool },
    Sums { halves: Halves, affine: bool, team: u32 },
    Terms { halves: Halves, affine: bool, lg_parts: u32, team: u32 },
    Collect { sums: u32, count: u32, team: u32, ladder: Ladder },
}

impl Step {
    /// Points that it writes.
    pub(super) fn points_out(&self) -> u64 {
        match self {
            Self::Slices { halves, .. } | Self::Sums { halves, .. } => halves.sums(),
            Self::Terms { halves, lg_parts, .. } => {
                let terms = u64::from(halves.lg_rows + halves.lg_columns + 1);
                (u64::from(halves.arrays) * terms) << lg_parts
            }
            Self::Collect { sums, .. } => u64::from(*sums),
        }
    }

    pub(super) fn bytes_out(&self, group: Group) -> u64 {
        self.points_out() * 4 * group.coordinate_bytes() as u64
    }
}
