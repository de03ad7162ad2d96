//! Calls of one step, computed piece by piece: MSM and NTT calls, and programs like them.
//!
//! GPUs, too, compute such calls from operands in the host's memory. As launched programs, NTTs of
//! 2^10 took a third longer on an H200, and MSMs of 2^20 2 % (`benches/experiments/transport.md`).

use std::{
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    AwaitedElements, ProgramPlan, RunInProgress, RunOperands, RunReport,
    call::{OnlyStep, RunCall},
};
use crate::{
    curve::points::Bases,
    engines::{DeviceInfo, JobControl, MsmNttEngine},
    error::{Error, Result},
    ops::host::{PieceContext, PiecesDone, PiecesSpec, StepInPieces},
    program::ValueId,
    verify::Verification,
};

pub struct RunInPieces {
    engine: Arc<dyn MsmNttEngine>,
    call: Arc<RunCall>,
    plan: ProgramPlan,
    /// The only step, apart from that of the input.
    id: ValueId,
    step: Box<dyn StepInPieces>,
    compute_time: Duration,
}

impl RunInPieces {
    /// `None` if the call has several steps, or if its step needs the whole input at once.
    pub fn new(engine: &Arc<dyn MsmNttEngine>, call: &Arc<RunCall>) -> Option<Self> {
        let OnlyStep { id, input } = call.only_step()?;
        let step = call.step(id).in_pieces(PiecesSpec {
            input,
            is_checked: call.is_checked,
            engine: engine.clone(),
        })?;
        let plan = ProgramPlan::in_pieces(call, &**engine)?;
        let engine = engine.clone();
        let call = call.clone();
        Some(Self { engine, call, plan, id, step, compute_time: Duration::ZERO })
    }

    fn report(&self, done: PiecesDone) -> RunReport {
        let DeviceInfo { kind, name, .. } = self.engine.description();
        let PiecesDone { points, executor, verify_time } = done;
        let mut report = self.call.new_report(kind, name);
        let step = &mut report.steps[self.id.index()];
        step.duration = self.compute_time.saturating_sub(verify_time);
        step.method.clone_from(&executor.device);
        step.verify_time = verify_time;
        if self.call.is_checked {
            step.verified = Verification::Probabilistic;
        }
        report.points = vec![points];
        report.executor = executor;
        report
    }
}

impl RunInProgress for RunInPieces {
    fn plan(&self) -> &ProgramPlan {
        &self.plan
    }

    fn begin(&mut self, bases: &[Bases]) -> Result<()> {
        self.step.begin(self.call.bases(self.id, bases))
    }

    fn awaited(&self) -> Option<AwaitedElements> {
        let Range { start, end } = self.step.next_elements();
        Some(AwaitedElements { input: 0, elements: start as u64..end as u64 })
    }

    fn step(
        &mut self,
        operands: &RunOperands<'_>,
        control: &JobControl,
    ) -> Result<Option<RunReport>> {
        let id = self.id;
        let call = &self.call;
        let missing = || Error::Internal("the call has no input".into());
        let input = *call.inputs_of(id).first().ok_or_else(missing)?;
        let context = PieceContext {
            control,
            bases: call.bases(id, operands.bases),
            input: call.elements(input, operands).ok_or_else(missing)?,
            sink: operands.sinks.first().copied().flatten(),
        };
        let begun = Instant::now();
        let done = self.step.compute(&context);
        let done = done.map_err(|error| call.name_element(input, error))?;
        self.compute_time += begun.elapsed();
        Ok(done.map(|done| self.report(done)))
    }
}
