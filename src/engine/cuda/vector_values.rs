//! Values of polynomials whose coefficients are on a GPU, for checks.

use zeroize::Zeroizing;

use super::vectors::{GpuVector, GpuVectors};
use crate::{
    curve::{Fr, layout},
    error::{Error, Result},
};

impl GpuVectors {
    /// The value of each row, the coefficients of a polynomial, at `point`. Waits for the device.
    ///
    /// Errors: `Exhausted`; `DeviceLost`.
    pub fn values_at(&self, vector: &GpuVector, point: Fr) -> Result<Zeroizing<Vec<Fr>>> {
        let out = self.zeros(vector.rows, 1)?;
        self.kernels().evaluate(&self.stream, out.elements(), vector.elements(), point)?;
        let bytes = out.elements().cast::<u8>();
        let bytes = bytes.ok_or_else(|| Error::Internal("values are misaligned".into()))?;
        let bytes = self.read(bytes)?;
        let mut values = Zeroizing::new(vec![Fr::default(); vector.rows]);
        layout::fr_as_bytes_mut(&mut values).copy_from_slice(&bytes);
        Ok(values)
    }

    /// Drops the twiddle tables, which may be damaged: a check has failed.
    pub fn evict_twiddle_tables(&self) {
        self.gpu().ntt.evict_tables();
    }
}
