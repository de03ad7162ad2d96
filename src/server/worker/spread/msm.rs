//! One MSM on several GPUs: each worker sums over a range of the points, and the sums are added. A
//! device holds and tables only its own range.

use std::sync::Arc;

use super::{
    parts::{MsmPart, MsmRows, PartSource},
    run::{CallPart, PlannedPart, SpreadRun},
    target::SpreadTarget,
};
use crate::{
    curve::points::{Bases, MsmSums},
    engine::EncodedScalars,
    error::{EngineError as Error, EngineResult as Result},
    exec::{AwaitedElements, OnlyStep, OutputWrites, ProgramPlan, RunCall, RunOperands, RunReport},
    ops::{MsmStep, Operation, SINGLE_STEP, single_msm},
    program::{InputSpec, OutputKind, OutputSpec, ValueId},
    worker::sent_objects::BasesScope,
};

/// The sums over a range of the points.
pub struct PartialSums {
    range: MsmPart,
    /// The steps of the whole call.
    input: ValueId,
    msm: ValueId,
}

/// A run on as many GPUs as the policy allows, if `call` is one MSM.
pub fn divide(
    target: &SpreadTarget<'_>,
    call: &Arc<RunCall>,
    alone: &ProgramPlan,
    gpus_max: u64,
) -> Result<Option<SpreadRun<PartialSums>>> {
    let Some(OnlyStep { id, input: shape }) = call.only_step() else { return Ok(None) };
    let Operation::Msm(msm) = &call.program.steps()[id.index()] else { return Ok(None) };
    if shape.elements() < target.policy.scalars_min {
        return Ok(None);
    }
    let rows = MsmRows { rows: shape.rows().into(), length: shape.length() };
    SpreadRun::divide(target, call, alone, gpus_max.min(rows.length), |gpus| {
        let ranges = rows.parts(gpus);
        let missing = || Error::Internal("an MSM has no parts".into());
        let largest = ranges.iter().max_by_key(|range| range.count()).ok_or_else(missing)?;
        let plan = target.plan(&part_call(call, msm, largest)?);
        let planned = ranges.into_iter().map(|range| {
            let call = part_call(call, msm, &range)?.into();
            let part = PartialSums { range, input: msm.input, msm: id };
            Ok(PlannedPart { part, call, plan: plan.clone() })
        });
        planned.collect()
    })
}

/// The call of a part: a program of one MSM.
fn part_call(call: &RunCall, msm: &MsmStep, range: &MsmPart) -> Result<RunCall> {
    let MsmRows { rows, length } = range.rows();
    let program = Arc::new(single_msm(msm.group, rows as usize, length as usize)?);
    let inputs = call.input_specs().iter();
    let inputs = inputs.map(|input| InputSpec { count: range.count(), ..*input });
    let output = OutputSpec { value: SINGLE_STEP, kind: OutputKind::Points };
    RunCall::new(program, &inputs.collect::<Vec<_>>(), &[output], call.is_checked)
}

impl CallPart for PartialSums {
    const SCOPE: BasesScope = BasesScope::OwnRange;
    const WRITES: OutputWrites = OutputWrites::RowByRow;

    fn bases(&self, whole: &RunCall, all: &[Bases]) -> Result<Vec<Bases>> {
        let start = self.range.points.start as usize;
        let length = self.range.rows().length as usize;
        let range = whole.bases(self.msm, all).and_then(|bases| bases.slice(start, length));
        let missing = || Error::Internal("the step's bases are missing".into());
        Ok(vec![range.ok_or_else(missing)?])
    }

    fn with_operands<T>(
        &self,
        _: &RunCall,
        operands: &RunOperands<'_>,
        act: impl FnOnce(&RunOperands<'_>) -> T,
    ) -> T {
        let part = &self.range;
        let count = self.range.count();
        let sources = operands.inputs.iter().map(|input| PartSource {
            part,
            whole: input.source,
            width: input.spec.encoding.width() as u64,
        });
        let sources: Vec<_> = sources.collect();
        let inputs = operands.inputs.iter().zip(&sources);
        let of_part = |spec| InputSpec { count, ..spec };
        let inputs = inputs.map(|(input, source)| EncodedScalars::of(of_part(input.spec), source));
        let inputs: Vec<_> = inputs.collect();
        act(&RunOperands { inputs: &inputs, sinks: &[None], ..Default::default() })
    }

    fn span_in_whole(&self, _: &RunCall, awaited: AwaitedElements) -> AwaitedElements {
        AwaitedElements { elements: self.range.span_in_whole(&awaited.elements), ..awaited }
    }

    fn step_in_whole(&self, own: ValueId) -> ValueId {
        if own == SINGLE_STEP { self.msm } else { self.input }
    }

    fn add_to(&self, whole: &mut RunReport, report: RunReport) -> Result<()> {
        let step = &mut whole.steps[self.msm.index()];
        let own = &report.steps[SINGLE_STEP.index()];
        step.method.clone_from(&whole.executor.device);
        step.duration = step.duration.max(own.duration);
        step.verify_time = step.verify_time.max(own.verify_time);
        step.verified = own.verified;
        let part = report.points.into_iter().flatten().next();
        let sums: Option<MsmSums> = match (whole.points[0].take(), part) {
            (None, part) => part,
            (Some(sums), part) => part.and_then(|part| sums.plus(&part)),
        };
        let missing = || Error::Internal("a part of an MSM lacks sums".into());
        whole.points[0] = Some(sums.ok_or_else(missing)?);
        Ok(())
    }
}
