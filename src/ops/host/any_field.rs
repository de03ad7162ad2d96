//! Steps that are computed in any field: written once, for the type of elements that the vector's
//! field decides.

use super::{HostArgument, HostContext, HostField, HostResult};
use crate::{
    curve::FrField,
    error::Result,
    field::{Field31, FieldId},
};

/// A kind of step that is computed in any field.
pub trait AnyFieldStep {
    /// Like [`HostStep::run`](super::HostStep::run), in the field of the inputs and the value.
    fn run_in<F: HostField>(
        &self,
        field: F,
        inputs: Vec<HostArgument<'_>>,
        context: &HostContext<'_>,
    ) -> Result<HostResult>;
}

/// Runs a step in the field of its value.
pub fn run_in_any_field(
    step: &impl AnyFieldStep,
    inputs: Vec<HostArgument<'_>>,
    context: &HostContext<'_>,
) -> Result<HostResult> {
    match context.shape()?.field() {
        FieldId::Bls12381Fr => step.run_in(FrField, inputs, context),
        FieldId::Prime31(prime) => step.run_in(Field31::new(prime), inputs, context),
    }
}
