//! Products with a sum or a difference, and copies of rows between vectors of other row lengths.

use bytemuck::Pod;

use super::{DeviceVector, ElementPtr, THREADS, common_length, element_grid, kernel_fault};
use crate::{
    device::{BlockShape, DeviceFault, DeviceSlice, Kernel, KernelModule, Stream},
    ntt::elements::DeviceFr,
};

/// Parameters: a, b, c, out, count.
type TernaryKernel = Kernel<(ElementPtr, ElementPtr, ElementPtr, ElementPtr, u64)>;
/// Parameters: from, to, row length, distance of rows in `from` and `to`, count.
type CopyRowsKernel = Kernel<(ElementPtr, ElementPtr, u64, u64, u64, u64)>;

pub struct RowKernels {
    multiply_add: TernaryKernel,
    multiply_subtract: TernaryKernel,
    copy_rows: CopyRowsKernel,
}

/// Rows within a vector: the first begins at its start.
#[derive(Clone, Copy)]
pub struct StridedRows<'a, T> {
    pub vector: DeviceSlice<'a, T>,
    /// Elements from the start of one row to the start of the next.
    pub stride: usize,
}

impl<T: Pod> StridedRows<'_, T> {
    /// Whether the vector has `rows` rows of `length` elements, which do not overlap.
    pub(crate) fn holds(&self, rows: usize, length: usize) -> bool {
        let last = rows.saturating_sub(1).checked_mul(self.stride);
        let end = last.and_then(|last| last.checked_add(length));
        (self.stride >= length || rows <= 1) && end.is_some_and(|end| end <= self.vector.len())
    }
}

impl RowKernels {
    pub(super) fn load(module: &KernelModule) -> Result<Self, DeviceFault> {
        let block = BlockShape::threads(THREADS);
        Ok(Self {
            multiply_add: module.kernel("fr_multiply_add", block)?,
            multiply_subtract: module.kernel("fr_multiply_subtract", block)?,
            copy_rows: module.kernel("fr_copy_rows", block)?,
        })
    }

    /// out\[i\] = a\[i\] b\[i\] + c\[i\].
    ///
    /// Shape: all have the same length; `out` may be an input, but must not overlap one in part.
    /// Errors: `KernelMismatch` if the shape is wrong; driver errors.
    pub fn multiply_add(
        &self,
        stream: &Stream,
        out: DeviceVector<'_>,
        inputs: [DeviceVector<'_>; 3],
    ) -> Result<(), DeviceFault> {
        ternary(&self.multiply_add, stream, out, inputs)
    }

    /// out\[i\] = a\[i\] b\[i\] - c\[i\]. Shape and errors: like [`RowKernels::multiply_add`].
    pub fn multiply_subtract(
        &self,
        stream: &Stream,
        out: DeviceVector<'_>,
        inputs: [DeviceVector<'_>; 3],
    ) -> Result<(), DeviceFault> {
        ternary(&self.multiply_subtract, stream, out, inputs)
    }

    /// Copies `rows` rows of `length` elements.
    ///
    /// Shape: both vectors hold the rows at their strides; they do not overlap.
    /// Errors: `KernelMismatch` if a vector is too short; driver errors.
    pub fn copy_rows(
        &self,
        stream: &Stream,
        to: StridedRows<'_, DeviceFr>,
        from: StridedRows<'_, DeviceFr>,
        rows: usize,
        length: usize,
    ) -> Result<(), DeviceFault> {
        if !to.holds(rows, length) || !from.holds(rows, length) {
            return Err(kernel_fault("rows exceed their vector"));
        }
        let count = (rows * length) as u64;
        if count == 0 {
            return Ok(());
        }
        let (from_stride, to_stride) = (from.stride as u64, to.stride as u64);
        let arguments = (from.vector, to.vector, length as u64, from_stride, to_stride, count);
        self.copy_rows.launch(stream, element_grid(count)?, arguments)
    }
}

fn ternary(
    kernel: &TernaryKernel,
    stream: &Stream,
    out: DeviceVector<'_>,
    inputs: [DeviceVector<'_>; 3],
) -> Result<(), DeviceFault> {
    let [a, b, c] = inputs;
    let count = common_length(out, &inputs)?;
    kernel.launch(stream, element_grid(count)?, (a, b, c, out, count))
}
