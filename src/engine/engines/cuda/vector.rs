//! A vector on one GPU.

use std::ops::Range;

use crate::{
    device::{DeviceLease, DeviceSlice},
    error::{Error, Limit, Result},
    field::FieldId,
    ntt::{DeviceFr, StridedRows},
    ntt31::WordVector,
    program::VectorShape,
};

/// Rows of canonical elements, one after another, as
/// [`ScalarEncoding::in_memory`](crate::curve::scalars::ScalarEncoding::in_memory) says.
pub struct GpuVector {
    memory: DeviceLease,
    field: FieldId,
    /// The number of rows.
    pub rows: usize,
    /// Elements of a row.
    pub row_length: usize,
}

impl GpuVector {
    /// A vector in memory that `lease` returns, given its bytes.
    ///
    /// Errors: `Exhausted` for 2^32 elements or more; those of `lease`.
    pub(super) fn lease(
        field: FieldId,
        rows: usize,
        row_length: usize,
        lease: impl FnOnce(u64) -> Result<DeviceLease>,
    ) -> Result<Self> {
        let count = rows.checked_mul(row_length).and_then(|count| u32::try_from(count).ok());
        let no_memory = || Error::Exhausted { limit: Limit::DeviceMemory, retry_after: None };
        let memory = lease(u64::from(count.ok_or_else(no_memory)?) * field.element_bytes())?;
        Ok(Self { memory, field, rows, row_length })
    }

    /// The first elements of the only row, in the same memory.
    pub(super) fn with_shorter_row(only_row: Self, row_length: usize) -> Self {
        let row_length = row_length.min(only_row.row_length);
        Self { row_length, ..only_row }
    }

    /// The same elements in other rows.
    ///
    /// Errors: `Internal` if the rows have another number of elements.
    pub fn reshaped(self, rows: usize, row_length: usize) -> Result<Self> {
        if rows.checked_mul(row_length) != Some(self.rows * self.row_length) {
            return Err(Error::Internal("a vector has other elements than its new rows".into()));
        }
        Ok(Self { rows, row_length, ..self })
    }

    /// The field of the elements.
    pub fn field(&self) -> FieldId {
        self.field
    }

    /// Whether the vector has as many rows and elements as `shape`.
    pub fn has_shape(&self, shape: VectorShape) -> bool {
        let lengths = (self.rows as u64, self.row_length as u64);
        self.field == shape.field() && lengths == (shape.rows().into(), shape.length())
    }

    /// The bytes of all rows.
    pub fn bytes(&self) -> DeviceSlice<'_, u8> {
        let bytes = self.rows * self.row_length * self.field.element_bytes() as usize;
        self.memory.all().slice(0, bytes).expect("the lease holds all rows")
    }

    /// All elements of a vector over another field than Fr, as words of 32 bits.
    ///
    /// Errors: `Internal` for a vector over Fr.
    pub fn words(&self) -> Result<WordVector<'_>> {
        if self.field == FieldId::Bls12381Fr {
            return Err(Error::Internal("a vector over Fr is used as one of words".into()));
        }
        let words = self.bytes().cast();
        words.ok_or_else(|| Error::Internal("a vector on a device is misaligned".into()))
    }

    /// The rows, from element `first` of each on, as words of 32 bits.
    ///
    /// Errors: those of [`GpuVector::words`].
    pub(super) fn word_rows_from(&self, first: usize) -> Result<StridedRows<'_, u32>> {
        let all = self.words()?;
        let first = (first * self.words_per_element()).min(all.len());
        let vector = all.slice(first, all.len() - first).expect("begins inside");
        Ok(StridedRows { vector, stride: self.row_length * self.words_per_element() })
    }

    pub(super) fn words_per_element(&self) -> usize {
        self.field.element_bytes() as usize / 4
    }

    /// All elements of a vector over Fr.
    ///
    /// Errors: `Internal` for a vector over another field.
    pub fn fr_elements(&self) -> Result<DeviceSlice<'_, DeviceFr>> {
        if self.field != FieldId::Bls12381Fr {
            let problem = format!("a vector over {} is used as one over Fr", self.field);
            return Err(Error::Internal(problem));
        }
        let elements = self.bytes().cast();
        elements.ok_or_else(|| Error::Internal("a vector on a device is misaligned".into()))
    }

    /// A row of a vector over Fr.
    ///
    /// Errors: those of [`GpuVector::fr_elements`].
    pub fn fr_row(&self, row: usize) -> Result<DeviceSlice<'_, DeviceFr>> {
        self.fr_rows(row..row + 1)
    }

    /// Adjacent rows of a vector over Fr.
    ///
    /// Errors: those of [`GpuVector::fr_elements`]; `Internal` for rows past the last.
    pub(super) fn fr_rows(&self, rows: Range<usize>) -> Result<DeviceSlice<'_, DeviceFr>> {
        let (first, count) = (rows.start * self.row_length, rows.len() * self.row_length);
        let rows = self.fr_elements()?.slice(first, count);
        rows.ok_or_else(|| Error::Internal("a vector has too few rows".into()))
    }

    /// The rows of a vector over Fr, from element `first` of each on.
    ///
    /// Errors: those of [`GpuVector::fr_elements`].
    pub(super) fn fr_rows_from(&self, first: usize) -> Result<StridedRows<'_, DeviceFr>> {
        let all = self.fr_elements()?;
        let first = first.min(all.len());
        let vector = all.slice(first, all.len() - first).expect("begins inside");
        Ok(StridedRows { vector, stride: self.row_length })
    }
}
