//! Which values a run holds at which step.

use super::{ExternalOperand, OUTPUTS_MAX, Program, StepKind, ValueId, ValueType};
use crate::error::{FieldProblem, InputError, Result};

/// The memory that a step's result takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultMemory {
    /// A step may overwrite a value that no later step reads.
    Reused,
    /// Each step makes its result in new memory, so that a check can read what the step read.
    New,
}

/// When a run needs which values, given its outputs. A run delivers an output when the output has
/// been made, and drops each value after the last step that reads it. Steps that no output needs
/// are not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Liveness {
    steps: Vec<StepLiveness>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct StepLiveness {
    is_needed: bool,
    stays_encoded: bool,
    in_place: Option<usize>,
    last_uses: Vec<ValueId>,
    held_bytes: u64,
}

impl Liveness {
    /// Errors: `Invalid` if `outputs` is empty, is too long, or names a value that no step makes.
    pub fn new<K: StepKind>(
        program: &Program<K>,
        outputs: &[ValueId],
        memory: ResultMemory,
    ) -> Result<Self> {
        check_outputs(program, outputs)?;
        let mut steps = vec![StepLiveness::default(); program.steps().len()];
        for output in outputs {
            steps[output.index()].is_needed = true;
        }
        for (index, step) in program.steps().iter().enumerate() {
            let is_input = step.operand() == Some(ExternalOperand::Input);
            steps[index].stays_encoded = is_input && !steps[index].is_needed;
        }
        let mut last_uses = vec![None; steps.len()];
        for (index, step) in program.steps().iter().enumerate().rev() {
            // All readers have been seen.
            if !steps[index].is_needed {
                continue;
            }
            let last_use = *last_uses[index].get_or_insert(index);
            steps[last_use].last_uses.push(ValueId(index as u32));
            for id in step.inputs().ids() {
                let input = &mut steps[id.index()];
                input.is_needed = true;
                input.stays_encoded &= step.reads_any_encoding();
                last_uses[id.index()].get_or_insert(index);
            }
        }
        let mut liveness = Self { steps };
        if memory == ResultMemory::Reused {
            for index in 0..liveness.steps.len() {
                liveness.steps[index].in_place = liveness.overwritten(program, index);
            }
        }
        liveness.count_held_bytes(program);
        Ok(liveness)
    }

    /// Whether an output needs the step.
    pub fn is_needed(&self, step: ValueId) -> bool {
        self.steps[step.index()].is_needed
    }

    /// Whether the value is an input of the call that is passed on without decoding: all steps that
    /// read it accept any encoding.
    pub fn stays_encoded(&self, value: ValueId) -> bool {
        self.steps[value.index()].stays_encoded
    }

    /// The position of the input that the step overwrites with its result; `None` if it overwrites
    /// none of them.
    pub fn in_place(&self, step: ValueId) -> Option<usize> {
        self.steps[step.index()].in_place
    }

    /// The values to drop after `step`: no later step reads them. This includes the value of `step`
    /// itself if no step reads it.
    pub fn last_uses(&self, step: ValueId) -> &[ValueId] {
        &self.steps[step.index()].last_uses
    }

    /// The bytes of all values held during `step`, with its own value; 0 if no output needs it.
    /// Inputs that stay encoded count as zero.
    pub fn held_bytes(&self, step: ValueId) -> u64 {
        self.steps[step.index()].held_bytes
    }

    /// The peak of the bytes of all values held at the same time.
    pub fn peak_bytes(&self) -> u64 {
        self.steps.iter().map(|step| step.held_bytes).max().unwrap_or(0)
    }

    fn overwritten<K: StepKind>(&self, program: &Program<K>, index: usize) -> Option<usize> {
        let StepLiveness { is_needed, last_uses, .. } = &self.steps[index];
        let step = &program.steps()[index];
        let ids = step.inputs().ids();
        ids.iter().enumerate().filter(|_| *is_needed).position(|(position, id)| {
            step.can_overwrite(position)
                && last_uses.contains(id)
                && !self.stays_encoded(*id)
                && program.types[id.index()] == program.types[index]
                && ids.iter().filter(|other| *other == id).count() == 1
        })
    }

    fn count_held_bytes<K: StepKind>(&mut self, program: &Program<K>) {
        let bytes = |(step, ty): (&StepLiveness, &ValueType)| match step.stays_encoded {
            true => 0,
            false => ty.bytes(),
        };
        let bytes: Vec<_> = self.steps.iter().zip(&program.types).map(bytes).collect();
        let mut held = 0;
        for (step, made) in self.steps.iter_mut().zip(&bytes).filter(|(step, _)| step.is_needed) {
            held += made;
            // An overwritten value has the same size as the new one.
            step.held_bytes = if step.in_place.is_some() { held - made } else { held };
            held -= step.last_uses.iter().map(|id| bytes[id.index()]).sum::<u64>();
        }
    }
}

fn check_outputs<K: StepKind>(program: &Program<K>, outputs: &[ValueId]) -> Result<()> {
    let refused = |problem| Err(InputError::field("outputs", problem));
    if outputs.is_empty() {
        return refused(FieldProblem::Missing);
    }
    if outputs.len() > OUTPUTS_MAX {
        return refused(FieldProblem::too_long(OUTPUTS_MAX, outputs.len()));
    }
    match outputs.iter().position(|output| output.index() >= program.steps().len()) {
        Some(index) => Err(InputError::element("outputs", index as u64, FieldProblem::NoSuchStep)),
        None => Ok(()),
    }
}
