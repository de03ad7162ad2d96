//! The inputs that a call provides to a program, the values that it requests, and how they are
//! checked.

use serde::{Deserialize, Serialize};

use super::{ExternalOperand, Liveness, Program, StepKind, ValueId, ValueType};
use crate::{
    curve::scalars::ScalarEncoding,
    error::{FieldProblem, InputError, Result},
    field::FieldId,
};

/// The elements that a call gives for an input step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputSpec {
    /// The encoding of the elements.
    pub encoding: ScalarEncoding,
    /// Number of elements of all rows.
    pub count: u64,
    /// Whether integers of the modulus and above are reduced; else they are refused.
    pub reduce: bool,
}

impl InputSpec {
    /// Elements that are not reduced.
    pub const fn new(encoding: ScalarEncoding, count: u64) -> Self {
        Self { encoding, count, reduce: false }
    }

    /// Bytes of all elements.
    pub const fn bytes(&self) -> u64 {
        self.count * self.encoding.width() as u64
    }
}

/// A value that a call wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputSpec {
    /// The value.
    pub value: ValueId,
    /// What the call takes it for.
    pub kind: OutputKind,
}

/// What a call takes an output for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OutputKind {
    /// A vector.
    Elements,
    /// A list of points.
    Points,
}

/// How the server checks a result before it returns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Verification {
    /// No check.
    #[default]
    None,
    /// Recompute the result with arkworks on other threads.
    Full,
    /// NTTs: evaluate input and output at a secret random point. MSMs: compute one more over a
    /// secret random combination of all scalar vectors.
    Probabilistic,
}

/// Checks a call's inputs and outputs. `inputs` has one element per input step; `liveness` is that
/// of `outputs`.
///
/// Errors: `Invalid` for the first of `inputs` or `outputs` that the program does not allow.
pub fn check_call<K: StepKind>(
    program: &Program<K>,
    liveness: &Liveness,
    inputs: &[InputSpec],
    outputs: &[OutputSpec],
) -> Result<()> {
    let mut count = 0;
    let got = inputs.len() as u64;
    for (number, value) in program.operands(ExternalOperand::Input).enumerate() {
        count += 1;
        let (Some(input), Some(ValueType::Vector(shape))) =
            (inputs.get(number), program.value_type(value))
        else {
            continue;
        };
        let refused = |problem| Err(InputError::element("inputs", number as u64, problem));
        if input.count != shape.elements() {
            let (expected, got) = (shape.elements(), input.count);
            return refused(FieldProblem::Length { expected, got });
        }
        let are_scalars = input.encoding.is_integer() && shape.field() == FieldId::Bls12381Fr;
        if are_scalars && !liveness.stays_encoded(value) {
            return refused(FieldProblem::NarrowEncoding);
        }
        if !are_scalars && !input.encoding.holds(shape.field()) {
            return refused(FieldProblem::OtherEncoding);
        }
    }
    if count != got {
        return Err(InputError::field("inputs", FieldProblem::Length { expected: count, got }));
    }
    for (index, output) in outputs.iter().enumerate() {
        let refused = |problem| Err(InputError::element("outputs", index as u64, problem));
        match (program.value_type(output.value), output.kind) {
            (None, _) => return refused(FieldProblem::NoSuchStep),
            (Some(ValueType::Points(_)), OutputKind::Elements) => {
                return refused(FieldProblem::IsPoints);
            }
            (Some(ValueType::Vector(_)), OutputKind::Points) => {
                return refused(FieldProblem::IsVector);
            }
            _ => {}
        }
    }
    Ok(())
}
