//! Decodes NTT specs.

use ark_ff::{BigInt, PrimeField, Zero};

use super::{at_most, batch, decode_enum, full_width_encoding, required, verify};
use crate::{
    curve::{Fr, TWO_ADICITY, scalars::ScalarEncoding},
    engine::NttPlan,
    error::{Error, FieldProblem, Result},
    verify::VerifyMode,
    wire::v1,
};

/// A decoded NTT spec.
#[derive(Debug, Clone, PartialEq)]
pub struct NttSpec {
    /// Size, direction, coset and orders of the transform.
    pub plan: NttPlan,
    /// Number of rows.
    pub rows: usize,
    /// Elements of a row as sent, at most 2^lg_n.
    pub row_length: u64,
    /// Encoding of the result.
    pub output_encoding: ScalarEncoding,
    /// Reduce elements modulo r.
    pub reduce: bool,
    /// How the result is checked.
    pub verify: VerifyMode,
}

/// Decodes an NTT spec.
///
/// Errors: `Invalid`.
pub fn ntt_spec(spec: Option<v1::NttSpec>) -> Result<NttSpec> {
    let spec = required("spec", spec)?;
    at_most("spec.lg_n", spec.lg_n.into(), TWO_ADICITY.into())?;
    let n = 1u64 << spec.lg_n;
    let row_length = spec.row_length.unwrap_or(n);
    at_most("spec.row_length", row_length, n)?;
    let reversed = |field, value| {
        decode_enum::<v1::Order>(field, value).map(|order| order == v1::Order::BitReversed)
    };
    let direction = decode_enum::<v1::Direction>("spec.direction", spec.direction)?;
    Ok(NttSpec {
        plan: NttPlan {
            lg_n: spec.lg_n,
            inverse: direction == v1::Direction::Inverse,
            coset: coset(&spec.coset_generator)?,
            input_reversed: reversed("spec.input_order", spec.input_order)?,
            output_reversed: reversed("spec.output_order", spec.output_order)?,
        },
        rows: batch(spec.batch)?,
        row_length,
        output_encoding: full_width_encoding("spec.output_encoding", spec.output_encoding)?,
        reduce: spec.reduce,
        verify: verify(spec.verify)?,
    })
}

fn coset(bytes: &[u8]) -> Result<Option<Fr>> {
    const FIELD: &str = "spec.coset_generator";
    if bytes.is_empty() {
        return Ok(None);
    }
    let mut limbs = [0u64; 4];
    if bytes.len() != 32 {
        let got = bytes.len() as u64;
        return Err(Error::field(FIELD, FieldProblem::Length { expected: 32, got }));
    }
    for (limb, chunk) in limbs.iter_mut().zip(bytes.chunks_exact(8)) {
        *limb = chunk.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    }
    match Fr::from_bigint(BigInt(limbs)) {
        None => Err(Error::field(FIELD, FieldProblem::NotCanonical)),
        Some(zero) if zero.is_zero() => Err(Error::field(FIELD, FieldProblem::Zero)),
        generator => Ok(generator),
    }
}
