//! Matrices of bits that no step eliminates. Kernels find what is wrong with them, and the host
//! confirms it, so that no matrix is refused because a device fails.

use std::sync::Arc;

use zeroize::Zeroizing;

use super::{vector::GpuVector, vectors::GpuVectors};
use crate::{
    device::{DeviceLease, DeviceSlice},
    error::{Error, Result},
    gf2::{BadPivot, rows_of_words},
    gf2_elimination::{DeviceBitsShape, stored_row},
};

/// What is eliminated.
pub struct EliminationInput {
    /// The pivots of a reduction; `None` for an echelon form.
    pub pivots: Option<Arc<GpuVector>>,
    /// The rows that are eliminated, as words of bits.
    pub rows: Arc<GpuVector>,
    /// Columns of both matrices.
    pub columns: u64,
}

/// Why matrices are refused.
pub enum RefusedBits {
    /// A pivot has a bit after its last column.
    UnusedOfPivot(u64),
    /// A row has a bit after its last column.
    UnusedOfRow(u64),
    /// A row of the pivots is not a pivot.
    Pivot(BadPivot),
}

/// What kernels have found of a matrix and its pivots.
#[derive(Clone, Copy)]
pub struct FoundBits<'a> {
    pub unused: UnusedBits<'a>,
    /// For each column, the first pivot that leads there.
    pub given_at: DeviceSlice<'a, u32>,
}

/// For the pivots and for the rows, the first one with a bit after its last column.
#[derive(Clone, Copy)]
pub struct UnusedBits<'a> {
    pub of_pivots: DeviceSlice<'a, u32>,
    pub of_rows: DeviceSlice<'a, u32>,
    bytes: DeviceSlice<'a, u8>,
}

impl<'a> UnusedBits<'a> {
    pub const BYTES: u64 = 8;

    pub fn of(lease: &'a DeviceLease) -> Result<Self> {
        let word = |at| lease.all().slice(at, 1).ok_or_else(wrong_shape);
        Ok(Self { of_pivots: word(0)?, of_rows: word(1)?, bytes: lease.all() })
    }
}

impl GpuVectors {
    /// Why the matrices are refused, if they are. Waits for what kernels have found.
    ///
    /// Errors: `Corrupt` if what a kernel has found is wrong; `DeviceLost`.
    pub(super) fn refused_bits(
        &self,
        input: &EliminationInput,
        found: FoundBits<'_>,
    ) -> Result<Option<RefusedBits>> {
        let EliminationInput { pivots, rows, columns } = input;
        let unused = self.read(found.unused.bytes)?;
        let mut unused = stored_words(&unused).map(stored_row);
        let [of_pivots, of_rows] = [unused.next().flatten(), unused.next().flatten()];
        if let (Some(row), Some(pivots)) = (of_pivots, pivots) {
            self.confirm_unused(pivots, *columns, row)?;
            return Ok(Some(RefusedBits::UnusedOfPivot(row.into())));
        }
        if let Some(row) = of_rows {
            self.confirm_unused(rows, *columns, row)?;
            return Ok(Some(RefusedBits::UnusedOfRow(row.into())));
        }
        let Some(pivots) = pivots else { return Ok(None) };
        Ok(self.bad_pivot(pivots, *columns, found.given_at)?.map(RefusedBits::Pivot))
    }

    /// The words of a row of a packed matrix.
    fn row_words(
        &self,
        packed: &GpuVector,
        columns: u64,
        row: usize,
    ) -> Result<Zeroizing<Vec<u8>>> {
        let words = shape_of(packed, columns)?.packed_words() as usize;
        let row = packed.words()?.slice(row * words, words).ok_or(Error::Corrupt)?;
        self.read(row.cast().ok_or_else(wrong_shape)?)
    }

    /// Checks what a kernel has found, so that no matrix is refused because a device fails.
    ///
    /// Errors: `Corrupt` if the row has no bit after its last column.
    fn confirm_unused(&self, packed: &GpuVector, columns: u64, row: u32) -> Result<()> {
        let bytes = self.row_words(packed, columns, row as usize)?;
        let at = (columns / 32) as usize;
        let used = columns % 32;
        let mut after_last = stored_words(&bytes).skip(at);
        let is_unused = after_last.next().is_some_and(|word| word >> used != 0)
            || after_last.any(|word| word != 0);
        if is_unused { Ok(()) } else { Err(Error::Corrupt) }
    }

    /// The first pivot that is zero or has the leading column of an earlier one.
    ///
    /// Errors: `Corrupt` if the pivots differ from what a kernel has found.
    fn bad_pivot(
        &self,
        pivots: &GpuVector,
        columns: u64,
        given_at: DeviceSlice<'_, u32>,
    ) -> Result<Option<BadPivot>> {
        let rows = shape_of(pivots, columns)?.rows;
        let given_at = self.read(given_at.cast().ok_or_else(wrong_shape)?)?;
        let first_at: Vec<_> = stored_words(&given_at).map(stored_row).collect();
        let mut leads = vec![false; rows as usize];
        for row in first_at.iter().flatten() {
            *leads.get_mut(*row as usize).ok_or(Error::Corrupt)? = true;
        }
        let Some(row) = leads.iter().position(|leads| !leads) else { return Ok(None) };
        let leading = |row| self.row_words(pivots, columns, row).map(|row| leading_column(&row));
        let Some(column) = leading(row)? else { return Ok(Some(BadPivot::Zero { row })) };
        let earlier = first_at.get(column).copied().flatten().ok_or(Error::Corrupt)? as usize;
        match earlier < row && leading(earlier)? == Some(column) {
            true => Ok(Some(BadPivot::Repeated { row, earlier })),
            false => Err(Error::Corrupt),
        }
    }
}

/// The lowest column in which a packed row is 1.
fn leading_column(row: &[u8]) -> Option<usize> {
    let (at, word) = stored_words(row).enumerate().find(|(_, word)| *word != 0)?;
    Some(32 * at + word.trailing_zeros() as usize)
}

/// The matrix in a vector, whose length is a multiple of its rows' words.
pub fn shape_of(vector: &GpuVector, columns: u64) -> Result<DeviceBitsShape> {
    let rows = u32::try_from(rows_of_words(vector.row_length as u64, columns));
    let columns = u32::try_from(columns);
    let (Ok(rows), Ok(columns)) = (rows, columns) else { return Err(wrong_shape()) };
    Ok(DeviceBitsShape { rows, columns })
}

fn stored_words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word))
}

fn wrong_shape() -> Error {
    Error::Internal("a matrix of bits on a device has another shape".into())
}
