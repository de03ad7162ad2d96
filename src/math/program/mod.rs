//! Programs: lists of steps without branches or loops. Step i makes value i from values of earlier
//! steps. Pure: knows the types of values, but neither their contents nor what computes them.

mod call;
mod constant;
mod liveness;
mod step;
mod value;

pub use call::{InputSpec, OutputKind, OutputSpec, Verification, check_call};
pub use constant::Constant;
pub use liveness::{Liveness, ResultMemory};
pub use step::{ExternalOperand, StepInputs, StepKind, StepProblem};
pub use value::{PointsShape, ROWS_MAX, VALUE_ELEMENTS_MAX, ValueId, ValueType, VectorShape};

use crate::error::{FieldProblem, InputError, Result};

/// The maximum number of steps of a program.
pub const STEPS_MAX: usize = 1024;
/// The maximum number of inputs of a call.
pub const INPUTS_MAX: usize = 256;
/// The maximum number of outputs of a call.
pub const OUTPUTS_MAX: usize = 256;
/// The maximum number of inputs of a step that takes a list.
pub const LIST_INPUTS_MAX: usize = 256;

/// Steps that have passed their checks: each reads earlier values only, whose types suit it.
#[derive(Debug, Clone, PartialEq)]
pub struct Program<K> {
    steps: Vec<K>,
    /// The types of the values, one per step.
    types: Vec<ValueType>,
}

impl<K: StepKind> Program<K> {
    /// A program of these steps.
    ///
    /// Errors: `Invalid` for the list of steps, or for the first step that is wrong.
    pub fn new(steps: Vec<K>) -> Result<Self> {
        let refused = |problem| Err(InputError::field("program.steps", problem));
        if steps.is_empty() {
            return refused(FieldProblem::Missing);
        }
        if steps.len() > STEPS_MAX {
            return refused(FieldProblem::too_long(STEPS_MAX, steps.len()));
        }
        let mut types = Vec::with_capacity(steps.len());
        let mut inputs = 0;
        for (index, step) in steps.iter().enumerate() {
            inputs += usize::from(step.operand() == Some(ExternalOperand::Input));
            let inferred = match inputs > INPUTS_MAX {
                true => Err(StepProblem::step(FieldProblem::TooMany { max: INPUTS_MAX as u64 })),
                false => infer(step, &types),
            };
            types.push(inferred.map_err(|problem| problem.of_step(index, step.name()))?);
        }
        Ok(Self { steps, types })
    }

    /// The steps, in order.
    pub fn steps(&self) -> &[K] {
        &self.steps
    }

    /// The ids of all values, in the order of the steps that make them.
    pub fn ids(&self) -> impl Iterator<Item = ValueId> {
        (0..self.steps.len()).map(|index| ValueId(index as u32))
    }

    /// The type of a value; `None` if no step makes it.
    pub fn value_type(&self, value: ValueId) -> Option<ValueType> {
        self.types.get(value.index()).copied()
    }

    /// The shape of a value; `None` for points, and if no step makes the value.
    pub fn shape(&self, value: ValueId) -> Option<VectorShape> {
        match self.value_type(value)? {
            ValueType::Vector(shape) => Some(shape),
            ValueType::Points(_) => None,
        }
    }

    /// The steps that take this kind of operand from the call, in order: the n-th step of these
    /// takes the n-th operand.
    pub fn operands(&self, operand: ExternalOperand) -> impl Iterator<Item = ValueId> {
        self.ids().filter(move |id| self.steps[id.index()].operand() == Some(operand))
    }

    /// A problem of the step that makes `value`.
    pub fn step_error(&self, value: ValueId, problem: StepProblem) -> InputError {
        problem.of_step(value.index(), self.steps[value.index()].name())
    }
}

/// The type of the value that `step` makes from values of the types `earlier`.
pub(crate) fn infer<K: StepKind>(
    step: &K,
    earlier: &[ValueType],
) -> Result<ValueType, StepProblem> {
    let inputs = step.inputs();
    let count = inputs.ids().len();
    if count > LIST_INPUTS_MAX {
        return Err(StepProblem::field("inputs", FieldProblem::too_long(LIST_INPUTS_MAX, count)));
    }
    let types = inputs.ids().iter().enumerate().map(|(position, id)| {
        let known = earlier.get(id.index()).copied();
        known.ok_or(inputs.problem(position, FieldProblem::NotEarlier))
    });
    step.infer(&types.collect::<Result<Vec<_>, _>>()?)
}
