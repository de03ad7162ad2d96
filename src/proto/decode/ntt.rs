//! Decodes NTT specs.

use capstan_math::{
    curve::{NttPlan, scalars::ScalarEncoding},
    error::{FieldProblem, InputError, Result},
    field::FieldId,
    program::{Constant, Verification},
};

use super::{at_most, batch, decode_enum, element_encoding, required, verify};
use crate::{
    parts::{coset, is_inverse, is_reversed},
    v1,
};

/// An NTT that a request specifies.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestedNtt {
    pub field: FieldId,
    pub plan: NttPlan<Constant>,
    /// Number of rows.
    pub batch: usize,
    /// Elements of a row in the input; zeros fill the row up to 2^lg_n.
    pub row_length: u64,
    /// Reduce elements modulo r.
    pub reduce: bool,
    pub output_encoding: ScalarEncoding,
    pub verify: Verification,
}

pub fn ntt_spec(spec: Option<v1::NttSpec>) -> Result<RequestedNtt> {
    let spec = required("spec", spec)?;
    let field = match spec.field() {
        v1::Field::Unspecified if spec.field == 0 => FieldId::Bls12381Fr,
        _ => decode_enum::<v1::Field, _>("spec.field", spec.field)?,
    };
    if !field.has_arithmetic() {
        return Err(InputError::field("spec.field", FieldProblem::UnsupportedField { field }));
    }
    at_most("spec.lg_n", spec.lg_n.into(), field.two_adicity().into())?;
    let n = 1u64 << spec.lg_n;
    let row_length = spec.row_length.unwrap_or(n);
    at_most("spec.row_length", row_length, n)?;
    let named = |field| move |problem| InputError::field(field, problem);
    let coset = coset(&spec.coset_generator).and_then(|generator| {
        generator.map_or(Ok(()), |generator| generator.check(field))?;
        Ok(generator)
    });
    let output_encoding = element_encoding("spec.output_encoding", spec.output_encoding)?;
    if !output_encoding.holds(field) {
        return Err(InputError::field("spec.output_encoding", FieldProblem::OtherEncoding));
    }
    Ok(RequestedNtt {
        field,
        plan: NttPlan {
            lg_n: spec.lg_n,
            inverse: is_inverse(spec.direction).map_err(named("spec.direction"))?,
            coset: coset.map_err(named("spec.coset_generator"))?,
            input_reversed: is_reversed(spec.input_order).map_err(named("spec.input_order"))?,
            output_reversed: is_reversed(spec.output_order).map_err(named("spec.output_order"))?,
        },
        batch: batch(spec.batch)?,
        row_length,
        reduce: spec.reduce,
        output_encoding,
        verify: verify("spec.verify", spec.verify)?,
    })
}
