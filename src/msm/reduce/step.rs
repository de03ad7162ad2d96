//! The launches, as numbers.

use super::shape::{Shape, Weights};
use crate::curve::Group;

/// Groups of four lanes in a block: as in `kernels/msm/reduce/split_sum.cuh`.
pub(super) const SUM_GROUPS: u32 = 32;

/// Rows and columns before a launch of sets of buckets, and in how many slices each is cut: see
/// `kernels/msm/reduce/halves.cuh`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Halves {
    pub(super) arrays: u32,
    pub(super) buckets: u32,
    pub(super) lg_columns: u32,
    pub(super) row_parts: u32,
    pub(super) column_parts: u32,
}

impl Halves {
    /// One slice each.
    pub(super) fn whole(shape: &Shape, lg_columns: u32) -> Self {
        let (arrays, buckets) = (shape.arrays(), shape.buckets);
        Self { arrays, buckets, lg_columns, row_parts: 1, column_parts: 1 }
    }

    /// In slices of at most `length` buckets, as few as that takes.
    pub(super) fn cut(shape: &Shape, lg_columns: u32, length: u32) -> Self {
        let whole = Self::whole(shape, lg_columns);
        let row_parts = whole.columns().div_ceil(length);
        Self { row_parts, column_parts: whole.rows().div_ceil(length), ..whole }
    }

    /// Of a set.
    pub(super) fn rows(&self) -> u32 {
        self.buckets.div_ceil(self.columns())
    }

    pub(super) fn columns(&self) -> u32 {
        1 << self.lg_columns
    }

    /// Rows and columns of all sets.
    pub(super) fn sums(&self) -> u64 {
        u64::from(self.arrays) * (u64::from(self.rows()) + u64::from(self.columns()))
    }

    /// Their slices.
    pub(super) fn slices(&self) -> u64 {
        let of_rows = u64::from(self.rows()) * u64::from(self.row_parts);
        let of_columns = u64::from(self.columns()) * u64::from(self.column_parts);
        u64::from(self.arrays) * (of_rows + of_columns)
    }

    /// Buckets of the longest slice.
    pub(super) fn longest(&self) -> u32 {
        let of_column = self.rows().div_ceil(self.column_parts);
        self.columns().div_ceil(self.row_parts).max(of_column)
    }

    /// Whether slices are whole rows and columns.
    pub(super) fn is_whole(&self) -> bool {
        (self.row_parts, self.column_parts) == (1, 1)
    }
}

/// What terms are made of: see `kernels/msm/reduce/terms.cuh`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    pub(super) arrays: u32,
    pub(super) rows: u32,
    pub(super) columns: u32,
    /// Points before the first column.
    pub(super) columns_at: u32,
    pub(super) lg_parts: u32,
}

impl Terms {
    /// Of the sums of rows and columns.
    pub(super) fn after(halves: &Halves) -> Self {
        let (arrays, rows) = (halves.arrays, halves.rows());
        let columns_at = arrays * rows;
        Self { arrays, rows, columns: halves.columns(), columns_at, lg_parts: 0 }
    }

    /// Of the buckets themselves: a set is one row.
    pub(super) fn of(shape: &Shape) -> Self {
        let (arrays, columns) = (shape.arrays(), shape.buckets);
        Self { arrays, rows: 1, columns, columns_at: 0, lg_parts: 0 }
    }

    /// log2 of a set's rows and columns, rounded up.
    pub(super) fn lg(&self) -> (u32, u32) {
        (lg_ceil(self.rows), lg_ceil(self.columns))
    }

    /// Of all sets, and not in parts.
    pub(super) fn terms(&self) -> u64 {
        let (lg_rows, lg_columns) = self.lg();
        u64::from(self.arrays) * u64::from(lg_rows + lg_columns + 1)
    }
}

/// log2, rounded up.
pub(super) fn lg_ceil(count: u32) -> u32 {
    count.next_power_of_two().ilog2()
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
    Slices {
        halves: Halves,
        affine: bool,
    },
    /// Of the buckets, where `sliced` is false.
    Sums {
        halves: Halves,
        sliced: bool,
        affine: bool,
        team: u32,
    },
    Terms {
        terms: Terms,
        affine: bool,
        team: u32,
    },
    Collect {
        sums: u32,
        count: u32,
        team: u32,
        ladder: Ladder,
    },
}

impl Step {
    /// Points that it writes.
    pub(super) fn points_out(&self) -> u64 {
        match self {
            Self::Slices { halves, .. } => halves.slices(),
            Self::Sums { halves, .. } => halves.sums(),
            Self::Terms { terms, .. } => terms.terms() << terms.lg_parts,
            Self::Collect { sums, .. } => u64::from(*sums),
        }
    }

    /// The name of the kernel that it launches.
    pub(super) fn kernel(&self, group: Group) -> String {
        let stage = match self {
            Self::Slices { affine: false, .. } if group == Group::G1 => "slices_xyzz",
            Self::Slices { .. } => "slices",
            Self::Sums { .. } => "sums",
            Self::Terms { .. } => "terms",
            Self::Collect { .. } => "collect",
        };
        format!("{}_reduce_{stage}", group.name())
    }

    pub(super) fn bytes_out(&self, group: Group) -> u64 {
        self.points_out() * 4 * group.coordinate_bytes() as u64
    }
}
