//! Element-wise arithmetic, in place if an input is not read again.

use std::sync::Arc;

use zeroize::Zeroizing;

use crate::{
    engines::{EngineWork, cuda::GpuVector},
    error::Result,
    field::Arithmetic,
    operation::{PointwiseOperation, PointwiseStep},
    ops::{
        gpu::{self, AnyFieldGpuStep, GpuContext, GpuField, GpuStep, LaunchedStep},
        host::{
            self, AnyFieldStep, HostArgument, HostContext, HostField, HostResult, HostStep,
            StepTypes,
        },
    },
};

impl AnyFieldStep for PointwiseStep {
    fn run_in<F: HostField>(
        &self,
        field: F,
        inputs: Vec<HostArgument<'_>>,
        context: &HostContext<'_>,
    ) -> Result<HostResult> {
        let rows = match self.operation {
            PointwiseOperation::Add => {
                host::map_elements(field, context, inputs, |at| field.add(at.of(0), at.of(1)))
            }
            PointwiseOperation::Subtract => {
                host::map_elements(field, context, inputs, |at| field.subtract(at.of(0), at.of(1)))
            }
            PointwiseOperation::Multiply => {
                host::map_elements(field, context, inputs, |at| field.multiply(at.of(0), at.of(1)))
            }
            PointwiseOperation::MultiplyAdd => host::map_elements(field, context, inputs, |at| {
                field.add(field.multiply(at.of(0), at.of(1)), at.of(2))
            }),
            PointwiseOperation::MultiplySubtract => {
                host::map_elements(field, context, inputs, |at| {
                    field.subtract(field.multiply(at.of(0), at.of(1)), at.of(2))
                })
            }
            PointwiseOperation::Invert => {
                let mut rows = host::only(inputs)?.into_rows(field, context.control)?;
                host::for_each_piece(&mut rows, context.control, |_, elements| {
                    invert(field, elements)
                })?;
                Ok(rows)
            }
        };
        Ok(HostResult::of_rows(field, rows?))
    }
}

impl HostStep for PointwiseStep {
    fn run(&self, inputs: Vec<HostArgument<'_>>, context: &HostContext<'_>) -> Result<HostResult> {
        host::run_in_any_field(self, inputs, context)
    }

    fn work(&self, types: &StepTypes<'_>) -> Vec<EngineWork> {
        vec![match self.operation {
            PointwiseOperation::Add | PointwiseOperation::Subtract => types.pass(0),
            PointwiseOperation::Multiply
            | PointwiseOperation::MultiplyAdd
            | PointwiseOperation::MultiplySubtract => types.pass(1),
            PointwiseOperation::Invert => types.scan(4),
        }]
    }
}

/// Inverts all elements but zeros, by one inversion. arkworks does not wipe the products.
fn invert<F: Arithmetic>(field: F, elements: &mut [F::Element]) {
    let is_zero = |element: &F::Element| *element == F::Element::default();
    let mut product = field.one();
    let mut products = Zeroizing::new(Vec::with_capacity(elements.len()));
    for element in elements.iter() {
        products.push(product);
        if !is_zero(element) {
            product = field.multiply(product, *element);
        }
    }
    let mut inverse = field.inverse(product).expect("a product of elements that are not zero");
    for (element, before) in elements.iter_mut().zip(products.iter()).rev() {
        if !is_zero(element) {
            let inverted = field.multiply(inverse, *before);
            inverse = field.multiply(inverse, std::mem::replace(element, inverted));
        }
    }
}

impl AnyFieldGpuStep for PointwiseStep {
    fn launch_in<F: GpuField>(
        &self,
        field: F,
        inputs: Vec<Arc<GpuVector>>,
        context: GpuContext<'_>,
    ) -> Result<LaunchedStep> {
        context.in_place(&inputs, |gpu, out| {
            let inputs: Vec<_> = inputs.iter().map(|vector| &**vector).collect();
            field.pointwise(gpu, self.operation, out, &inputs)
        })
    }
}

impl GpuStep for PointwiseStep {
    fn launch(&self, inputs: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        gpu::launch_in_any_field(self, inputs, context)
    }
}
