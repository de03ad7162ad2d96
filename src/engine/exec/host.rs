//! Programs on the host: values in memory, NTTs and MSMs on an engine, everything else on the
//! current rayon pool.
//!
//! A program's steps run on threads of no rayon pool: a rayon thread that waits for another pool,
//! as a call of an engine does, meanwhile runs other tasks of its pool. Such a task could be a step
//! of another program that waits for the GPU that the first program holds: a deadlock.

use std::{mem, sync::Arc, time::Instant};

use super::{
    AwaitedElements, Executor, ProgramPlan, RunInProgress, RunOperands, RunReport, call::RunCall,
    in_pieces::RunInPieces,
};
use crate::{
    engines::{DeviceInfo, ExecutedBy, JobControl, MsmNttEngine, add_stages},
    error::{Error, Result},
    ops::host::{HostContext, HostResult, HostValue},
    program::ValueId,
    verify::Verification,
};

#[derive(Clone)]
pub struct HostExecutor {
    pub engine: Arc<dyn MsmNttEngine>,
    /// See [`Executor::oracle`].
    pub oracle: Option<Arc<dyn MsmNttEngine>>,
}

impl Executor for HostExecutor {
    fn description(&self) -> DeviceInfo {
        self.engine.description()
    }

    fn oracle(&self) -> Option<Arc<dyn MsmNttEngine>> {
        self.oracle.clone()
    }

    fn prepare(&self, call: Arc<RunCall>) -> Box<dyn RunInProgress> {
        match RunInPieces::new(&self.engine, &call) {
            Some(run) => Box::new(run),
            None => Box::new(HostRun::new(self.engine.clone(), call)),
        }
    }
}

/// A program in progress on the host.
struct HostRun {
    engine: Arc<dyn MsmNttEngine>,
    call: Arc<RunCall>,
    plan: ProgramPlan,
    /// The values that later steps read.
    values: Vec<Option<HostValue>>,
    /// The next step; `None` after the last one, or after an error.
    next: Option<ValueId>,
    report: RunReport,
}

impl RunInProgress for HostRun {
    fn plan(&self) -> &ProgramPlan {
        &self.plan
    }

    fn awaited(&self) -> Option<AwaitedElements> {
        self.call.whole_input(self.call.input_number(self.next?)?)
    }

    fn step(
        &mut self,
        operands: &RunOperands<'_>,
        control: &JobControl,
    ) -> Result<Option<RunReport>> {
        let id = self.next.take();
        let id = id.ok_or_else(|| Error::Internal("the run was stepped after its end".into()))?;
        control.check()?;
        let value = self.compute(id, operands, control)?;
        self.deliver(id, &value, operands, control)?;
        self.values[id.index()] = Some(value);
        for value in self.call.liveness.last_uses(id) {
            self.values[value.index()] = None;
        }
        self.next = self.call.next_from(id.index() + 1);
        Ok(self.next.is_none().then(|| mem::take(&mut self.report)))
    }
}

impl HostRun {
    fn new(engine: Arc<dyn MsmNttEngine>, call: Arc<RunCall>) -> Self {
        let values = call.program.ids().map(|_| None).collect();
        let DeviceInfo { kind, name, .. } = engine.description();
        let report = call.new_report(kind, name);
        let next = call.next_from(0);
        let plan = ProgramPlan::on_host(&call, &*engine);
        Self { engine, call, plan, values, next, report }
    }

    fn compute(
        &mut self,
        id: ValueId,
        operands: &RunOperands<'_>,
        control: &JobControl,
    ) -> Result<HostValue> {
        let call = &self.call;
        let context = HostContext {
            engine: &*self.engine,
            control,
            value_type: call.value_type(id)?,
            input: call.elements(id, operands),
            bases: call.bases(id, operands.bases),
            matrix: call.matrix(id, operands.matrices),
        };
        let position = call.liveness.in_place(id);
        let overwritten =
            position.and_then(|at| self.values[call.inputs_of(id)[at].index()].take());
        let arguments = call.arguments(id, operands, &self.values, overwritten)?;
        let begun = Instant::now();
        let HostResult { value, executor } =
            call.step(id).run(arguments, &context).map_err(|error| call.name_element(id, error))?;
        let duration = begun.elapsed();
        let verified = self.check(id, &value, operands, &context)?;
        let step = &mut self.report.steps[id.index()];
        (step.duration, step.verified) = (duration, verified);
        if verified != Verification::None {
            step.verify_time = begun.elapsed().saturating_sub(duration);
        }
        if let Some(ExecutedBy { device, stages, .. }) = executor {
            add_stages(&mut self.report.executor.stages, &stages);
            step.method = device;
        }
        Ok(value)
    }

    /// How the value was checked.
    ///
    /// Errors: `Corrupt` if it is wrong.
    fn check(
        &self,
        id: ValueId,
        value: &HostValue,
        operands: &RunOperands<'_>,
        context: &HostContext<'_>,
    ) -> Result<Verification> {
        if !self.call.is_checked {
            return Ok(Verification::None);
        }
        let arguments = self.call.arguments(id, operands, &self.values, None)?;
        match self.call.step(id).check(&arguments, value, context)? {
            None => Ok(Verification::None),
            Some(true) => Ok(Verification::Probabilistic),
            Some(false) => Err(Error::Corrupt),
        }
    }

    fn deliver(
        &mut self,
        id: ValueId,
        value: &HostValue,
        operands: &RunOperands<'_>,
        control: &JobControl,
    ) -> Result<()> {
        for &number in self.call.outputs_of(id) {
            match (value, operands.sinks.get(number).copied().flatten()) {
                (HostValue::Points(sums), None) => {
                    if let Some(listener) = operands.early_listener(number) {
                        listener(sums);
                    }
                    self.report.points[number] = Some(sums.clone());
                }
                (HostValue::Vector(rows), Some(sink)) => sink.write(rows, control)?,
                _ => return Err(Error::Internal(format!("output {number} has no sink"))),
            }
        }
        Ok(())
    }
}
