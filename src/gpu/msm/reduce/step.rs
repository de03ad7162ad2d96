//! The launches of a bucket reduction and their parameters.

use super::shape::{BucketWeights, ReduceShape};
use crate::{curve::Group, msm::launch::lg_ceil};

/// The rows and columns of sets of buckets, and the slices that each is split into: see
/// `kernels/msm/reduce/rows_columns.cuh`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BucketMatrix {
    pub(super) set_count: u32,
    pub(super) buckets: u32,
    pub(super) lg_columns: u32,
    pub(super) row_parts: u32,
    pub(super) column_parts: u32,
}

impl BucketMatrix {
    pub(super) fn unsliced(shape: &ReduceShape, lg_columns: u32) -> Self {
        let (set_count, buckets) = (shape.set_count(), shape.buckets);
        Self { set_count, buckets, lg_columns, row_parts: 1, column_parts: 1 }
    }

    /// The fewest slices of at most `length` buckets.
    pub(super) fn in_slices(shape: &ReduceShape, lg_columns: u32, length: u32) -> Self {
        let whole = Self::unsliced(shape, lg_columns);
        let row_parts = whole.columns().div_ceil(length);
        Self { row_parts, column_parts: whole.rows().div_ceil(length), ..whole }
    }

    pub(super) fn rows(&self) -> u32 {
        self.buckets.div_ceil(self.columns())
    }

    pub(super) fn columns(&self) -> u32 {
        1 << self.lg_columns
    }

    pub(super) fn sums(&self) -> u64 {
        u64::from(self.set_count) * (u64::from(self.rows()) + u64::from(self.columns()))
    }

    pub(super) fn slices(&self) -> u64 {
        let of_rows = u64::from(self.rows()) * u64::from(self.row_parts);
        let of_columns = u64::from(self.columns()) * u64::from(self.column_parts);
        u64::from(self.set_count) * (of_rows + of_columns)
    }

    pub(super) fn longest(&self) -> u32 {
        let of_column = self.rows().div_ceil(self.column_parts);
        self.columns().div_ceil(self.row_parts).max(of_column)
    }

    pub(super) fn is_whole(&self) -> bool {
        (self.row_parts, self.column_parts) == (1, 1)
    }
}

/// The sums that terms are made of: see `kernels/msm/reduce/bit_terms.cuh`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BitTerms {
    pub(super) set_count: u32,
    pub(super) rows: u32,
    pub(super) columns: u32,
    /// Points before the first column.
    pub(super) columns_at: u32,
    pub(super) lg_parts: u32,
}

impl BitTerms {
    pub(super) fn of_sums(matrix: &BucketMatrix) -> Self {
        let (set_count, rows, columns) = (matrix.set_count, matrix.rows(), matrix.columns());
        Self { set_count, rows, columns, columns_at: set_count * rows, lg_parts: 0 }
    }

    /// Terms of the buckets themselves: a set is one row.
    pub(super) fn of_buckets(shape: &ReduceShape) -> Self {
        let (set_count, columns) = (shape.set_count(), shape.buckets);
        Self { set_count, rows: 1, columns, columns_at: 0, lg_parts: 0 }
    }

    pub(super) fn lg_rows(&self) -> u32 {
        lg_ceil(self.rows)
    }

    pub(super) fn lg_columns(&self) -> u32 {
        lg_ceil(self.columns)
    }

    /// Terms of all sets, before they are split into parts.
    pub(super) fn terms(&self) -> u64 {
        u64::from(self.set_count) * u64::from(self.lg_rows() + self.lg_columns() + 1)
    }
}

/// The doublings of each point of a period: see `kernels/msm/reduce/bit_terms.cuh`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeriodicDoublings {
    pub(super) period: u32,
    pub(super) width: u32,
    pub(super) narrow_mask: u64,
}

impl PeriodicDoublings {
    pub(super) const NONE: Self = Self { period: 1, width: 0, narrow_mask: 0 };

    /// The doublings between sets, if kernels can count them: widths differ by at most one.
    pub(super) fn of_sets(shape: &ReduceShape) -> Option<Self> {
        let widths: Vec<u32> = shape.shifts.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let width = widths.iter().copied().max().unwrap_or(0);
        let fits = widths.iter().all(|&own| own == width || own + 1 == width);
        let narrow = widths.iter().enumerate().filter(|(_, own)| **own < width);
        let is_countable = fits && shape.shifts.first() == Some(&0) && shape.sets() <= u64::BITS;
        is_countable.then(|| Self {
            period: shape.sets(),
            width,
            narrow_mask: narrow.fold(0, |mask, (set, _)| mask | 1 << set),
        })
    }

    /// The doublings of a set's terms: each weighs twice as much as the previous one, except that
    /// the second weighs as much as the first unless buckets are for odd digits.
    pub(super) fn of_terms(shape: &ReduceShape) -> Self {
        Self {
            period: shape.terms(),
            width: 1,
            narrow_mask: (shape.weights == BucketWeights::Consecutive).into(),
        }
    }
}

/// One launch: see `kernels/msm/reduce.cu`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReduceStep {
    Slices {
        matrix: BucketMatrix,
        affine: bool,
    },
    /// Sums of the buckets themselves if `sliced` is false.
    Sums {
        matrix: BucketMatrix,
        sliced: bool,
        affine: bool,
        team: u32,
    },
    Terms {
        terms: BitTerms,
        affine: bool,
        team: u32,
    },
    Combine {
        sums: u32,
        count: u32,
        team: u32,
        doublings: PeriodicDoublings,
    },
}

impl ReduceStep {
    pub(super) fn points_out(&self) -> u64 {
        match self {
            Self::Slices { matrix, .. } => matrix.slices(),
            Self::Sums { matrix, .. } => matrix.sums(),
            Self::Terms { terms, .. } => terms.terms() << terms.lg_parts,
            Self::Combine { sums, .. } => u64::from(*sums),
        }
    }

    pub(super) fn kernel(&self, group: Group) -> String {
        let stage = match self {
            Self::Slices { affine: false, .. } if group == Group::G1 => "slices_xyzz",
            Self::Slices { .. } => "slices",
            Self::Sums { .. } => "sums",
            Self::Terms { .. } => "terms",
            Self::Combine { .. } => "combine",
        };
        format!("{}_reduce_{stage}", group.name())
    }

    pub(super) fn bytes_out(&self, group: Group) -> u64 {
        self.points_out() * 4 * group.coordinate_bytes() as u64
    }
}
