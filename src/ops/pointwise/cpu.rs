//! Element-wise arithmetic, in place if an input is not read again.

use ark_ff::{Field, Zero};
use zeroize::Zeroizing;

use super::{PointwiseOperation, PointwiseStep};
use crate::{
    curve::Fr,
    engine::EngineWork,
    error::Result,
    ops::host::{self, HostArgument, HostContext, HostResult, HostStep, StepTypes},
};

impl HostStep for PointwiseStep {
    fn run(&self, inputs: Vec<HostArgument<'_>>, context: &HostContext<'_>) -> Result<HostResult> {
        let rows = match self.operation {
            PointwiseOperation::Add => {
                host::map_elements(context, inputs, |at| at.of(0) + at.of(1))
            }
            PointwiseOperation::Subtract => {
                host::map_elements(context, inputs, |at| at.of(0) - at.of(1))
            }
            PointwiseOperation::Multiply => {
                host::map_elements(context, inputs, |at| at.of(0) * at.of(1))
            }
            PointwiseOperation::MultiplyAdd => {
                host::map_elements(context, inputs, |at| at.of(0) * at.of(1) + at.of(2))
            }
            PointwiseOperation::MultiplySubtract => {
                host::map_elements(context, inputs, |at| at.of(0) * at.of(1) - at.of(2))
            }
            PointwiseOperation::Invert => {
                let mut rows = host::only(inputs)?.into_rows(context.control)?;
                host::for_each_piece(&mut rows, context.control, |_, elements| invert(elements))?;
                Ok(rows)
            }
        };
        Ok(rows?.into())
    }

    fn work(&self, types: &StepTypes<'_>) -> EngineWork {
        match self.operation {
            PointwiseOperation::Add | PointwiseOperation::Subtract => types.pass(0),
            PointwiseOperation::Multiply
            | PointwiseOperation::MultiplyAdd
            | PointwiseOperation::MultiplySubtract => types.pass(1),
            PointwiseOperation::Invert => types.scan(4),
        }
    }
}

/// Inverts all elements but zeros, by one inversion. arkworks does not wipe the products.
fn invert(elements: &mut [Fr]) {
    let mut product = Fr::ONE;
    let mut products = Zeroizing::new(Vec::with_capacity(elements.len()));
    for element in elements.iter() {
        products.push(product);
        if !element.is_zero() {
            product *= element;
        }
    }
    let mut inverse = product.inverse().expect("a product of elements that are not zero");
    for (element, before) in elements.iter_mut().zip(products.iter()).rev() {
        if !element.is_zero() {
            inverse *= std::mem::replace(element, inverse * before);
        }
    }
}
