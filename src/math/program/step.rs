//! What a program knows of its steps.

use std::slice;

use super::{ValueId, ValueType};
use crate::error::{FieldPath, FieldProblem, InputError, StepField};

/// A kind of step: what it reads and makes.
pub trait StepKind {
    /// The name of its message's field in the contract, such as `ntt`.
    fn name(&self) -> &'static str;

    /// The values that it reads.
    fn inputs(&self) -> StepInputs<'_>;

    /// The type of the value that it makes from values of these types, one per input.
    fn infer(&self, inputs: &[ValueType]) -> Result<ValueType, StepProblem>;

    /// Whether the step can make its value in the memory of its input at this position, if both
    /// have the same type.
    fn can_overwrite(&self, _position: usize) -> bool {
        false
    }

    /// Whether each row of the value depends on the same row of each input only, so that the step
    /// can be computed for some of the rows.
    fn is_row_by_row(&self) -> bool {
        false
    }

    /// Whether the step reads inputs of the call in any encoding; other steps read elements.
    fn reads_any_encoding(&self) -> bool {
        false
    }

    /// What the step takes from the call, in addition to values.
    fn operand(&self) -> Option<ExternalOperand> {
        None
    }
}

/// What a step takes from the call, in addition to values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExternalOperand {
    /// The elements of an input.
    Input,
    /// Stored bases.
    Bases,
    /// A stored matrix.
    Matrix,
}

/// The values that a step reads, by their fields in the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepInputs<'a> {
    /// It reads no values.
    None,
    /// In the field `input`.
    One(&'a ValueId),
    /// In the field `inputs`.
    List(&'a [ValueId]),
    /// In two fields of these names.
    Pair {
        /// The two values.
        ids: &'a [ValueId; 2],
        /// The field of each value.
        names: [&'static str; 2],
    },
}

impl<'a> StepInputs<'a> {
    /// The values, by position.
    pub fn ids(self) -> &'a [ValueId] {
        match self {
            Self::None => &[],
            Self::One(id) => slice::from_ref(id),
            Self::List(ids) => ids,
            Self::Pair { ids, .. } => ids,
        }
    }

    /// A problem of the input at `position`.
    pub fn problem(self, position: usize, problem: FieldProblem) -> StepProblem {
        match self {
            Self::List(_) => StepProblem::element("inputs", position, problem),
            Self::Pair { names, .. } => StepProblem::field(names[position], problem),
            Self::None | Self::One(_) => StepProblem::field("input", problem),
        }
    }
}

/// What is wrong with a step, and with which of its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepProblem {
    /// `None` for the whole step.
    field: Option<&'static str>,
    index: Option<u64>,
    problem: FieldProblem,
}

impl StepProblem {
    /// A problem of the whole step.
    pub const fn step(problem: FieldProblem) -> Self {
        Self { field: None, index: None, problem }
    }

    /// A problem of a field of the step.
    pub const fn field(field: &'static str, problem: FieldProblem) -> Self {
        Self { field: Some(field), index: None, problem }
    }

    /// A problem of element `index` of a field.
    pub const fn element(field: &'static str, index: usize, problem: FieldProblem) -> Self {
        Self { field: Some(field), index: Some(index as u64), problem }
    }

    /// The error of step number `step`, whose kind has the name `operation`.
    pub const fn of_step(self, step: usize, operation: &'static str) -> InputError {
        let Self { field, index, problem } = self;
        let path = FieldPath::Step(StepField { step: step as u32, operation, name: field });
        InputError::Invalid { path, index, problem }
    }
}
