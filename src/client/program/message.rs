//! The messages of steps.

use bytes::Bytes;

use crate::{
    client::types::{Direction, Order},
    curve::NttPlan,
    field::FieldId,
    ops::{self, Operation},
    program::{Constant, ValueId},
    wire::v1::{self, step::Operation as Message},
};

pub fn program(steps: &[Operation]) -> v1::Program {
    let message = |step| v1::Step { operation: Some(message(step)) };
    v1::Program { steps: steps.iter().map(message).collect() }
}

fn message(step: &Operation) -> Message {
    match step {
        Operation::Input(ops::InputStep { field, rows, length }) => {
            Message::Input(v1::InputStep { field: field_id(*field), rows: *rows, length: *length })
        }
        Operation::Constant(ops::ConstantStep { field, elements }) => {
            let (field, elements) = (field_id(*field), canonical(elements));
            Message::Constant(v1::ConstantStep { field, elements })
        }
        Operation::Powers(step) => Message::Powers(powers(step)),
        Operation::Ntt(ops::NttStep { input, plan }) => Message::Ntt(ntt(*input, plan)),
        Operation::Pointwise(ops::PointwiseStep { operation, inputs }) => {
            let operation = v1::PointwiseOperation::from(*operation).into();
            Message::Pointwise(v1::PointwiseStep { operation, inputs: indices(inputs) })
        }
        Operation::LinearCombination(ops::LinearCombinationStep { inputs, factors }) => {
            let (inputs, factors) = (indices(inputs), canonical(factors));
            Message::LinearCombination(v1::LinearCombinationStep { inputs, factors })
        }
        Operation::Slice(ops::SliceStep { input, offset, length }) => {
            let (input, offset, length) = (input.0, *offset, *length);
            Message::Slice(v1::SliceStep { input, offset, length })
        }
        Operation::Concat(ops::ConcatStep { inputs }) => {
            Message::Concat(v1::ConcatStep { inputs: indices(inputs) })
        }
        Operation::Pad(ops::PadStep { input, length }) => {
            Message::Pad(v1::PadStep { input: input.0, length: *length })
        }
        Operation::Evaluate(ops::EvaluateStep { input, point }) => {
            Message::Evaluate(v1::EvaluateStep { input: input.0, point: canonical(&[*point]) })
        }
        Operation::DivideByLinear(ops::DivideByLinearStep { input, point }) => {
            let (input, point) = (input.0, canonical(&[(*point).into()]));
            Message::DivideByLinear(v1::DivideByLinearStep { input, point })
        }
        Operation::DivideByVanishing(step) => {
            let coset_generator = canonical(&[step.coset_generator.into()]);
            let (input, lg_n) = (step.input.0, step.lg_n);
            let step = v1::DivideByVanishingStep { input, lg_n, coset_generator };
            Message::DivideByVanishing(step)
        }
        Operation::Msm(step) => Message::Msm(msm(step)),
        Operation::SparseProduct(step) => {
            let &ops::SparseProductStep { input, ref object_id, rows, terms } = step;
            let object_id = Bytes::copy_from_slice(object_id);
            let step = v1::SparseProductStep { input: input.0, object_id, rows, terms };
            Message::SparseProduct(step)
        }
        Operation::PolyMul(step) => Message::PolyMul(poly_mul(step)),
        &Operation::Gf2Reduce(ops::Gf2ReduceStep { inputs: [pivots, rows], columns }) => {
            Message::Gf2Reduce(v1::Gf2ReduceStep { pivots: pivots.0, rows: rows.0, columns })
        }
        &Operation::Gf2Echelon(ops::Gf2EchelonStep { input, columns }) => {
            Message::Gf2Echelon(v1::Gf2EchelonStep { input: input.0, columns })
        }
        Operation::IntMul(step) => Message::IntMul(int_mul(step)),
        Operation::IntSum(step) => Message::IntSum(int_sum(step)),
        &Operation::Reshape(ops::ReshapeStep { input, rows }) => {
            Message::Reshape(v1::ReshapeStep { input: input.0, rows })
        }
    }
}

fn powers(step: &ops::PowersStep) -> v1::PowersStep {
    let &ops::PowersStep { field, base, first, length } = step;
    let (base, first) = (canonical(&[base]), canonical(&[first]));
    v1::PowersStep { field: field_id(field), base, first, length }
}

fn msm(step: &ops::MsmStep) -> v1::MsmStep {
    let ops::MsmStep { input, group, object_id, offset } = step;
    v1::MsmStep {
        input: input.0,
        group: v1::Group::from(*group).into(),
        object_id: Bytes::copy_from_slice(object_id),
        offset: *offset,
    }
}

fn int_sum(step: &ops::IntSumStep) -> v1::IntSumStep {
    let ops::IntSumStep { inputs, factors, length } = step;
    v1::IntSumStep { inputs: indices(inputs), factors: factors.clone(), length: *length }
}

fn int_mul(step: &ops::IntMulStep) -> v1::IntMulStep {
    v1::IntMulStep { inputs: indices(&step.inputs) }
}

fn poly_mul(step: &ops::PolyMulStep) -> v1::PolyMulStep {
    use v1::poly_mul_step::Reduction;
    let reduction = match step.reduction {
        ops::PolyReduction::None => None,
        ops::PolyReduction::Cyclic(n) => Some(Reduction::Cyclic(n)),
        ops::PolyReduction::Negacyclic(n) => Some(Reduction::Negacyclic(n)),
    };
    v1::PolyMulStep { inputs: indices(&step.inputs), reduction }
}

fn ntt(input: ValueId, plan: &NttPlan<Constant>) -> v1::NttStep {
    let direction = if plan.inverse { Direction::Inverse } else { Direction::Forward };
    let order = |is_reversed| match is_reversed {
        true => v1::Order::from(Order::BitReversed).into(),
        false => v1::Order::from(Order::Natural).into(),
    };
    v1::NttStep {
        input: input.0,
        lg_n: plan.lg_n,
        direction: v1::Direction::from(direction).into(),
        coset_generator: plan.coset.map_or_else(Bytes::new, |generator| canonical(&[generator])),
        input_order: order(plan.input_reversed),
        output_order: order(plan.output_reversed),
    }
}

fn field_id(field: FieldId) -> i32 {
    v1::Field::from(field).into()
}

fn indices(values: &[ValueId]) -> Vec<u32> {
    values.iter().map(|value| value.0).collect()
}

/// Canonical little-endian bytes, concatenated.
fn canonical(elements: &[Constant]) -> Bytes {
    elements.iter().flat_map(|element| element.to_bytes_le()).collect()
}
