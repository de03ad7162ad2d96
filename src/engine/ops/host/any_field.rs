//! Steps that are written once for vectors over any field: the field decides the type of elements.

use super::{HostArgument, HostContext, HostElements, HostField, HostResult};
use crate::{
    curve::FrField,
    error::{Error, Result},
    field::{Field31, FieldId, Gf2Words, IntegerLimbs},
};

/// A kind of step that moves elements of vectors, whatever their field.
pub trait AnyVectorStep {
    /// Like [`HostStep::run`](super::HostStep::run), for the elements of the inputs and the value.
    fn run_on<F: HostElements>(
        &self,
        field: F,
        inputs: Vec<HostArgument<'_>>,
        context: &HostContext<'_>,
    ) -> Result<HostResult>;
}

/// Runs a step on the elements of its value.
pub fn run_on_any_vector(
    step: &impl AnyVectorStep,
    inputs: Vec<HostArgument<'_>>,
    context: &HostContext<'_>,
) -> Result<HostResult> {
    match context.shape()?.field() {
        FieldId::Bls12381Fr => step.run_on(FrField, inputs, context),
        FieldId::Prime31(prime) => step.run_on(Field31::new(prime), inputs, context),
        FieldId::Gf2 => step.run_on(Gf2Words, inputs, context),
        FieldId::Integers => step.run_on(IntegerLimbs, inputs, context),
    }
}

/// A kind of step that is computed in any field that has arithmetic.
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
        FieldId::Gf2 | FieldId::Integers => {
            Err(Error::Internal("the step does not compute with these elements".into()))
        }
    }
}
