//! Steps that are written once for all fields that GPUs compute in.

use std::sync::Arc;

use super::{GpuContext, LaunchedStep, field::GpuField};
use crate::{
    curve::FrField,
    engines::cuda::GpuVector,
    error::{Error, Result},
    field::{Field31, FieldId},
};

/// A kind of step that GPUs compute in any field that has arithmetic.
pub trait AnyFieldGpuStep {
    /// Like [`GpuStep::launch`](super::GpuStep::launch), in the field of the inputs and the value.
    fn launch_in<F: GpuField>(
        &self,
        field: F,
        inputs: Vec<Arc<GpuVector>>,
        context: GpuContext<'_>,
    ) -> Result<LaunchedStep>;
}

/// Launches a step in the field of its value.
pub fn launch_in_any_field(
    step: &impl AnyFieldGpuStep,
    inputs: Vec<Arc<GpuVector>>,
    context: GpuContext<'_>,
) -> Result<LaunchedStep> {
    match context.shape()?.field() {
        FieldId::Bls12381Fr => step.launch_in(FrField, inputs, context),
        FieldId::Prime31(prime) => step.launch_in(Field31::new(prime), inputs, context),
        field @ (FieldId::Gf2 | FieldId::Integers) => {
            Err(Error::Internal(format!("the step does not compute over {field}")))
        }
    }
}
