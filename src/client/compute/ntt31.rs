//! Transforms over fields of a prime below 2^31.

use std::mem;

use capstan_math::{
    curve::scalars::ScalarEncoding,
    error::FieldProblem,
    field::{FieldId, Prime31},
};

use super::ntt_spec::NttCallSpec;
use crate::{
    Client, EncodedNttResult, NttOptions, NttReport, convert,
    error::{ClientError, Result},
    transfer::row_buffers::RowBuffers,
};

/// Result of an NTT over a field of a prime below 2^31.
#[derive(Debug)]
pub struct Ntt31Result {
    /// The rows, one after another: values below the prime.
    pub values: Vec<u32>,
    /// Timing and execution.
    pub report: NttReport,
}

impl Client {
    /// Transforms rows over the field of a prime below 2^31.
    ///
    /// Shape: `options.batch` rows of equal length, padded to 2^`options.lg_n` if that is set; else
    /// the length is a power of two. Values are below the prime, unless `options.reduce` is set.
    /// Errors: those of [`Self::ntt`].
    pub async fn ntt31(
        &self,
        field: Prime31,
        values: &[u32],
        options: NttOptions<u32>,
    ) -> Result<Ntt31Result> {
        let encoding = ScalarEncoding::Canonical31;
        let spec = NttCallSpec::new(field.into(), values.len(), &options, encoding)?;
        // Wipes received values if the call fails or is cancelled.
        let mut out = convert::zeros::<u32>("lg_n", spec.received as u64, 1)?;
        let (input, output) = (bytemuck::cast_slice(values), bytemuck::cast_slice_mut(&mut out));
        let mut rows = RowBuffers::Separate { input, output };
        let report = self.run_ntt(spec, &mut rows, options).await?;
        convert::check_words(&mut out, field)?;
        Ok(Ntt31Result { values: mem::take(&mut *out), report })
    }

    /// Like [`Self::ntt31`], for encoded rows: `Canonical31`, or `Montgomery31` with the factor
    /// 2^32, which is how Plonky3 holds elements in memory. The result has the same encoding.
    ///
    /// Errors: those of [`Self::ntt31`]; `InvalidInput` for another encoding.
    pub async fn ntt31_bytes(
        &self,
        field: Prime31,
        encoding: ScalarEncoding,
        bytes: &[u8],
        options: NttOptions<u32>,
    ) -> Result<EncodedNttResult> {
        let field = FieldId::from(field);
        if !encoding.holds(field) {
            return Err(ClientError::input("encoding", FieldProblem::OtherEncoding));
        }
        let count = convert::element_count("values", bytes.len() as u64, encoding.width())?;
        let spec = NttCallSpec::new(field, count as usize, &options, encoding)?;
        let mut out = convert::zeros::<u8>("lg_n", spec.received as u64, encoding.width())?;
        let mut rows = RowBuffers::Separate { input: bytes, output: &mut out };
        let report = self.run_ntt(spec, &mut rows, options).await?;
        Ok(EncodedNttResult { bytes: out, report })
    }
}
