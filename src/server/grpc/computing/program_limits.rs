//! What a server allows of a program: bytes and modelled time. A refusal names the step that takes
//! most.

use super::{
    found_call::{CallKind, FoundCall},
    run_outputs::vector_bytes,
};
use crate::grpc::calls::call::CallContext;
use crate::{
    error::{Error, ProgramExcess, Result, StepField},
    exec::{ModelledTime, ProgramPlan},
    ops::OperationProgram,
    program::{ExternalOperand, StepKind, ValueId},
    telemetry,
};

/// The memory that a call of a program takes.
pub struct BytesOfRun {
    total: u64,
    /// The first of the steps that take most. The working memory is that of the step during which
    /// it is largest; payloads are those of the steps that take or make their values.
    largest: ValueId,
}

impl BytesOfRun {
    pub fn new(
        call: &CallContext,
        found: &FoundCall,
        plan: &ProgramPlan,
        response_bytes: u64,
    ) -> Result<Self> {
        let FoundCall { program, inputs, outputs, .. } = found;
        let mut total = response_bytes;
        let mut of_steps = vec![0_u64; program.steps().len()];
        let mut add = |step: ValueId, bytes| {
            total = total.saturating_add(bytes);
            of_steps[step.index()] = of_steps[step.index()].saturating_add(bytes);
        };
        add(plan.largest, plan.memory_bytes.saturating_add(found.bases_bytes()));
        for (step, input) in program.operands(ExternalOperand::Input).zip(inputs) {
            add(step, input.unadmitted_bytes(call)?);
        }
        for output in outputs {
            add(output.value, vector_bytes(program, output));
        }
        let steps = program.ids().zip(of_steps);
        let larger = steps.reduce(|most, step| if step.1 > most.1 { step } else { most });
        Ok(Self { total, largest: larger.map_or(plan.largest, |(step, _)| step) })
    }

    /// Refuses a call that fits in no empty budget, with its largest step if it has several.
    pub fn check(&self, call: &CallContext, found: &FoundCall) -> Result<()> {
        let &Self { total: got, largest } = self;
        if found.kind != CallKind::Run {
            return call.check_fits(got);
        }
        let Some(budget) = call.too_small_budget(got) else { return Ok(()) };
        let (limit, max) = (budget.limit(), budget.max());
        refuse(&found.program, largest, ProgramExcess::Bytes { limit, max, got })
    }
}

/// Refuses a program whose modelled time is above the limit, with its longest step.
pub fn check_time(
    call: &CallContext,
    program: &OperationProgram,
    modelled: ModelledTime,
) -> Result<()> {
    let max = call.state.settings.program_time_max;
    if modelled.total <= max {
        return Ok(());
    }
    let (max_s, got_s) = (max.as_secs(), modelled.total.as_secs_f64().ceil() as u64);
    refuse(program, modelled.longest, ProgramExcess::Time { max_s, got_s })
}

fn refuse(program: &OperationProgram, step: ValueId, excess: ProgramExcess) -> Result<()> {
    let operation = program.steps()[step.index()].name();
    let step = StepField { step: step.0, operation, name: None };
    let refused = Error::ProgramTooLarge { step, excess };
    telemetry::count_refusal(&refused);
    Err(refused)
}
