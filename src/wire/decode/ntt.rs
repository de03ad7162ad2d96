//! Decodes NTT specs.

use ark_ff::{BigInt, PrimeField, Zero};

use super::{at_most, batch, exact_bytes, full_width_encoding, required, specified, verify};
use crate::{
    curve::{Fr, TWO_ADICITY, scalars::ScalarEncoding},
    engine::NttPlan,
    error::{Error, FieldProblem, Result},
    verify::VerifyMode,
    wire::v1,
};

#[derive(Debug, Clone, PartialEq)]
pub struct NttSpec {
    pub plan: NttPlan,
    pub rows: usize,
    /// Elements of a row as sent, at most 2^lg_n.
    pub row_length: u64,
    pub output_encoding: ScalarEncoding,
    /// Reduce elements modulo r.
    pub reduce: bool,
    pub verify: VerifyMode,
}

pub fn ntt_spec(spec: Option<v1::NttSpec>) -> Result<NttSpec> {
    let spec = required("spec", spec)?;
    at_most("spec.lg_n", spec.lg_n.into(), TWO_ADICITY.into())?;
    let n = 1u64 << spec.lg_n;
    let row_length = spec.row_length.unwrap_or(n);
    at_most("spec.row_length", row_length, n)?;
    let reversed = |field, value| {
        specified::<v1::Order>(field, value).map(|order| order == v1::Order::BitReversed)
    };
    let direction = specified::<v1::Direction>("spec.direction", spec.direction)?;
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
    let bytes: [u8; 32] = exact_bytes(FIELD, bytes)?;
    let limbs = bytemuck::cast::<_, [[u8; 8]; 4]>(bytes).map(u64::from_le_bytes);
    match Fr::from_bigint(BigInt(limbs)) {
        None => Err(Error::field(FIELD, FieldProblem::NotCanonical)),
        Some(zero) if zero.is_zero() => Err(Error::field(FIELD, FieldProblem::Zero)),
        generator => Ok(generator),
    }
}
