//! A program on several GPUs: each worker makes some of the outputs. Outputs that need a common
//! step are made by the same worker, but steps without operands, such as inputs, run wherever they
//! are read.

use std::{cmp::Reverse, sync::Arc, time::Duration};

use super::{
    run::{CallPart, PlannedPart, SpreadRun},
    target::SpreadTarget,
};
use crate::{
    error::EngineResult as Result,
    exec::{
        AwaitedElements, OutputWrites, ProgramPlan, RunCall, RunOperands, RunReport, StepReport,
    },
    ops::Operation,
    program::{StepKind, ValueId},
};

/// The numbers of some outputs, within those of the call.
pub struct PartOfOutputs(Vec<usize>);

/// Outputs that one worker makes, and the modelled time of all their steps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct OutputGroup {
    outputs: Vec<usize>,
    time: Duration,
}

/// A run on as many GPUs as the policy allows, if outputs of `call` are independent.
pub fn divide(
    target: &SpreadTarget<'_>,
    call: &Arc<RunCall>,
    alone: &ProgramPlan,
    gpus_max: u64,
) -> Result<Option<SpreadRun<PartOfOutputs>>> {
    if alone.modelled.total < target.policy.program_time_min {
        return Ok(None);
    }
    let independent = independent_outputs(call);
    let mut groups = Vec::with_capacity(independent.len());
    for outputs in independent {
        let time = target.plan(&part_call(call, &outputs)?).modelled.total;
        groups.push(OutputGroup { outputs, time });
    }
    SpreadRun::divide(target, call, alone, gpus_max.min(groups.len() as u64), |gpus| {
        let planned = balanced(&groups, gpus as usize).into_iter().map(|outputs| {
            let call = Arc::new(part_call(call, &outputs)?);
            let plan = target.plan(&call);
            Ok(PlannedPart { part: PartOfOutputs(outputs), call, plan })
        });
        planned.collect()
    })
}

/// The call with only these outputs.
fn part_call(call: &RunCall, outputs: &[usize]) -> Result<RunCall> {
    let wanted: Vec<_> = outputs.iter().map(|number| call.output_specs()[*number]).collect();
    RunCall::new(call.program.clone(), call.input_specs(), &wanted, call.is_checked)
}

/// The numbers of the outputs, in groups that need no common step with operands.
fn independent_outputs(call: &RunCall) -> Vec<Vec<usize>> {
    let steps = call.program.steps();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    // For each step, the group that needs it.
    let mut needed_by: Vec<Option<usize>> = vec![None; steps.len()];
    for (number, output) in call.output_specs().iter().enumerate() {
        let needed = needed_steps(steps, output.value);
        let mut joined: Vec<usize> = needed.iter().filter_map(|id| needed_by[id.index()]).collect();
        joined.sort_unstable();
        joined.dedup();
        let group = joined.first().copied().unwrap_or(groups.len());
        if group == groups.len() {
            groups.push(Vec::new());
        }
        for other in joined.into_iter().skip(1) {
            let outputs = std::mem::take(&mut groups[other]);
            groups[group].extend(outputs);
            needed_by.iter_mut().filter(|by| **by == Some(other)).for_each(|by| *by = Some(group));
        }
        groups[group].push(number);
        needed.into_iter().for_each(|id| needed_by[id.index()] = Some(group));
    }
    groups.retain(|outputs| !outputs.is_empty());
    groups
}

/// The steps with operands that make `value`.
fn needed_steps(steps: &[Operation], value: ValueId) -> Vec<ValueId> {
    let mut is_seen = vec![false; steps.len()];
    let mut found = Vec::new();
    let mut left = vec![value];
    while let Some(id) = left.pop() {
        let inputs = steps[id.index()].inputs();
        if std::mem::replace(&mut is_seen[id.index()], true) || inputs.ids().is_empty() {
            continue;
        }
        found.push(id);
        left.extend(inputs.ids());
    }
    found
}

/// The outputs of `parts` workers: groups, the longest first, go to the worker with the least work.
fn balanced(groups: &[OutputGroup], parts: usize) -> Vec<Vec<usize>> {
    let mut by_time: Vec<_> = groups.iter().collect();
    // Stable, so that calls of the same program are always divided the same way.
    by_time.sort_by_key(|group| Reverse(group.time));
    let mut workers = vec![OutputGroup::default(); parts];
    for group in by_time {
        if let Some(least) =
            workers.iter_mut().min_by_key(|worker| (worker.time, worker.outputs.len()))
        {
            least.time += group.time;
            least.outputs.extend(&group.outputs);
        }
    }
    workers.into_iter().map(|worker| worker.outputs).collect()
}

impl CallPart for PartOfOutputs {
    /// A part may be done before another one reads its inputs.
    const WRITES: OutputWrites = OutputWrites::AnyTime;

    fn with_operands<T>(
        &self,
        _: &RunCall,
        operands: &RunOperands<'_>,
        act: impl FnOnce(&RunOperands<'_>) -> T,
    ) -> T {
        let sinks = self.0.iter().map(|number| operands.sinks.get(*number).copied().flatten());
        let early_sums = self.0.iter().map(|number| operands.early_listener(*number));
        let sinks = sinks.collect::<Vec<_>>();
        let early_sums = early_sums.collect::<Vec<_>>();
        act(&RunOperands { sinks: &sinks, early_sums: &early_sums, ..*operands })
    }

    fn span_in_whole(&self, _: &RunCall, awaited: AwaitedElements) -> AwaitedElements {
        awaited
    }

    fn add_to(&self, whole: &mut RunReport, report: RunReport) -> Result<()> {
        for (number, points) in self.0.iter().zip(report.points) {
            whole.points[*number] = points;
        }
        for (step, own) in whole.steps.iter_mut().zip(report.steps) {
            // Steps without operands may have run in several parts.
            if own != StepReport::not_run(own.operation) {
                *step = own;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        curve::{Fr, NttPlan},
        field::FieldId,
        ops::{ConstantStep, EvaluateStep, InputStep, NttStep, OperationProgram, PadStep},
        program::{InputSpec, OutputKind, OutputSpec},
    };

    fn call(steps: Vec<Operation>, outputs: &[u32]) -> RunCall {
        let program = Arc::new(OperationProgram::new(steps).unwrap());
        let spec = |value: &u32| OutputSpec { value: ValueId(*value), kind: OutputKind::Elements };
        let outputs: Vec<_> = outputs.iter().map(spec).collect();
        let encoding = crate::curve::scalars::ScalarEncoding::Montgomery;
        RunCall::new(program, &[InputSpec::new(encoding, 8)], &outputs, false).unwrap()
    }

    fn input() -> Operation {
        InputStep { field: FieldId::Bls12381Fr, rows: 1, length: 8 }.into()
    }

    fn evaluate(input: u32) -> Operation {
        EvaluateStep { input: ValueId(input), point: Fr::from(3).into() }.into()
    }

    fn ntt(input: u32) -> Operation {
        let (inverse, coset, input_reversed, output_reversed) = Default::default();
        let plan = NttPlan { lg_n: 3, inverse, coset, input_reversed, output_reversed };
        NttStep { input: ValueId(input), plan }.into()
    }

    #[test]
    fn outputs_are_independent_unless_they_need_a_common_step() {
        let constant =
            ConstantStep { field: FieldId::Bls12381Fr, elements: vec![Fr::from(1).into()] }.into();
        // 0 input, 1 and 2 read it, 3 reads 2, 4 is a constant, 5 reads it.
        let pad = PadStep { input: ValueId(4), length: 2 }.into();
        let steps = vec![input(), evaluate(0), ntt(0), evaluate(2), constant, pad];
        let of = |outputs: &[u32]| independent_outputs(&call(steps.clone(), outputs));
        assert_eq!(of(&[1, 3, 5]), [vec![0], vec![1], vec![2]]);
        assert_eq!(of(&[2, 1, 3]), [vec![0, 2], vec![1]]);
        // Inputs and constants can be delivered by any worker.
        assert_eq!(of(&[0, 4, 0]), [vec![0], vec![1], vec![2]]);
        assert_eq!(of(&[3, 3]), [vec![0, 1]]);
    }

    #[test]
    fn an_output_joins_groups_that_were_separate() {
        let concat = crate::ops::ConcatStep { inputs: vec![ValueId(1), ValueId(2)] }.into();
        let steps = vec![input(), evaluate(0), evaluate(0), concat];
        let groups = independent_outputs(&call(steps, &[1, 2, 3]));
        assert_eq!(groups, [vec![0, 1, 2]]);
    }

    #[test]
    fn workers_get_equal_work() {
        let group =
            |output, ms| OutputGroup { outputs: vec![output], time: Duration::from_millis(ms) };
        let groups = [group(0, 3), group(1, 8), group(2, 4), group(3, 2)];
        assert_eq!(balanced(&groups, 2), [vec![1], vec![2, 0, 3]]);
        assert_eq!(balanced(&groups, 4), [vec![1], vec![2], vec![0], vec![3]]);
        // Each part has an output.
        assert_eq!(balanced(&[group(0, 0), group(1, 0)], 2), [vec![0], vec![1]]);
    }
}
