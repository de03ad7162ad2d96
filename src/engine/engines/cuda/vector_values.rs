//! Values of polynomials whose coefficients are on a GPU, for checks.

use zeroize::Zeroizing;

use super::{vector::GpuVector, vectors::GpuVectors};
use crate::{
    curve::{Fr, layout},
    error::Result,
};

impl GpuVectors {
    /// The value of each row, the coefficients of a polynomial over Fr, at `point`. Waits for the
    /// device.
    ///
    /// Errors: `Exhausted`; `DeviceLost`.
    pub fn values_at(&self, vector: &GpuVector, point: Fr) -> Result<Zeroizing<Vec<Fr>>> {
        let out = self.zeros(vector.field(), vector.rows, 1)?;
        let values = out.fr_elements()?;
        let elements = vector.fr_elements()?;
        self.kernels().evaluate(&self.stream, values, elements, point)?;
        let bytes = self.read(out.bytes())?;
        let mut values = Zeroizing::new(vec![Fr::default(); vector.rows]);
        layout::fr_as_bytes_mut(&mut values).copy_from_slice(&bytes);
        Ok(values)
    }

    /// Drops the twiddle tables, which may be damaged: a check has failed.
    pub fn evict_twiddle_tables(&self) {
        self.gpu().ntt.evict_tables();
    }
}
