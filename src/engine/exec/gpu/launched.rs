//! A program whose steps are launched on a GPU one after another. Its outputs are delivered at the
//! end, when the inputs have been checked and all sums have been computed. Sums that are wanted
//! early are also reported when all steps are launched.

use std::{mem, sync::Arc, time::Duration};

use crate::{
    curve::{points::MsmSums, scalars::ScalarEncoding},
    device::Event,
    engines::{
        ComputedMsm, EngineModel, JobControl, add_stages,
        cuda::{CudaEngine, GpuVector, GpuVectors, RefusedElement, elapsed},
    },
    error::{Error, FieldPath, FieldProblem, InputError, Limit, Result},
    exec::{ElementSink, RunOperands, RunReport, call::RunCall},
    ops::{
        gpu::{GpuContext, GpuValue, LaunchedStep, PendingSums},
        on_gpu,
    },
    program::{ValueId, ValueType},
    verify::Verification,
};

/// The most steps that are launched and not done: a cancelled program soon leaves the GPU.
const STEPS_AHEAD: usize = 16;

pub struct LaunchedRun {
    call: Arc<RunCall>,
    next: Option<ValueId>,
    /// Values that later steps or the end of the run read.
    values: Vec<Option<GpuValue>>,
    timed: Vec<TimedStep>,
    /// The input steps, in the order of their uploads.
    uploaded: Vec<ValueId>,
    report: RunReport,
    /// Dropped after the values, whose work it waits for.
    gpu: GpuVectors,
}

/// When the device starts and finishes a step.
struct TimedStep {
    id: ValueId,
    begun: Event,
    done: Event,
}

impl LaunchedRun {
    pub fn new(
        engine: Arc<CudaEngine>,
        call: Arc<RunCall>,
        operands: &RunOperands<'_>,
        control: &JobControl,
    ) -> Result<Box<Self>> {
        let gpu = GpuVectors::new(engine, operands.bases, control)?;
        let report = call.new_report(gpu.engine().description().kind, gpu.device_name());
        let next = call.next_from(0);
        let values = call.program.ids().map(|_| None).collect();
        let (timed, uploaded) = Default::default();
        Ok(Box::new(Self { call, next, values, timed, uploaded, report, gpu }))
    }

    /// Launches the next step, or after the last one waits for the next sums that are wanted early.
    /// False if there are neither. Returns true without launching a step if `control` yields and
    /// work of the last step, or of another job, is still on the GPU after about a millisecond.
    ///
    /// Errors: `Invalid` for the element that a run on the host would refuse; those of the engine.
    pub fn advance(&mut self, operands: &RunOperands<'_>, control: &JobControl) -> Result<bool> {
        let is_launched = match self.launch_next(operands, control) {
            // An earlier step may have decoded a refused element.
            Err(error @ Error::Input(InputError::Invalid { path: FieldPath::Step(_), .. })) => {
                self.check_uploads()?;
                return Err(error);
            }
            launched => launched?,
        };
        Ok(is_launched || self.report_early_sums(operands, control)?)
    }

    /// Errors: `Invalid` for the first element of an uploaded input that is not canonical.
    fn check_uploads(&self) -> Result<()> {
        let Some(RefusedElement { upload, index }) = self.gpu.first_refused()? else {
            return Ok(());
        };
        let error = Error::element("elements", index, FieldProblem::NotCanonical);
        Err(self.call.name_element(self.uploaded[upload], error))
    }

    /// Like [`Self::advance`], for the steps.
    fn launch_next(&mut self, operands: &RunOperands<'_>, control: &JobControl) -> Result<bool> {
        if !self.end_last_sums(control)? || self.launch_piece()? {
            return Ok(true);
        }
        let Some(id) = self.next else { return Ok(false) };
        if let Some(early) = self.timed.len().checked_sub(STEPS_AHEAD) {
            self.gpu.wait_for(&self.timed[early].done)?;
        }
        if let Some(matrix) = self.call.matrix(id, operands.matrices) {
            // Other jobs use the GPU meanwhile.
            self.gpu.hold_matrix(matrix)?;
        }
        let Some(turn) = self.gpu.begin_step()? else { return Ok(true) };
        // The passes of an MSM begin their own pieces.
        let turn = matches!(self.call.value_type(id)?, ValueType::Vector(_)).then_some(turn);
        let begun = self.gpu.mark()?;
        let mut launched = self.launch(id, operands);
        // Sums hold their bases on the GPU until they are finished.
        if is_short_of_memory(&launched) && turn.is_none() && self.finish_sums(control)? {
            launched = self.launch(id, operands);
        }
        let LaunchedStep { value, method, is_checked } =
            launched.map_err(|error| self.call.name_element(id, error))?;
        let done = self.gpu.mark()?;
        if let Some(turn) = turn {
            turn.end_at(&done);
        }
        self.timed.push(TimedStep { id, begun, done });
        let step = &mut self.report.steps[id.index()];
        step.method = method;
        if is_checked {
            step.verified = Verification::Probabilistic;
        }
        self.values[id.index()] = Some(value);
        for value in self.call.liveness.last_uses(id) {
            if !self.call.is_output(*value) {
                self.values[value.index()] = None;
            }
        }
        self.next = self.call.next_from(id.index() + 1);
        Ok(true)
    }

    /// Launches the next piece of an elimination that is the last step, and waits for the piece
    /// before. False if all is launched.
    fn launch_piece(&mut self) -> Result<bool> {
        let Some(last) = self.timed.last_mut() else { return Ok(false) };
        let value = &mut self.values[last.id.index()];
        let Some(GpuValue::Elimination(elimination)) = value else { return Ok(false) };
        let Some(turn) = self.gpu.begin_step()? else { return Ok(true) };
        let reduced = elimination.launch_next(&self.gpu)?;
        let before = mem::replace(&mut last.done, self.gpu.mark()?);
        turn.end_at(&last.done);
        self.gpu.wait_for(&before)?;
        if let Some(reduced) = reduced {
            *value = Some(GpuValue::Vector(reduced));
        }
        Ok(true)
    }

    /// Lets the sums of the last step end if `control` yields, or if they are of an input: a
    /// program may have many of these, and each holds its scalars on the GPU until it is finished.
    /// False if `control` yields and they have not ended after about a millisecond.
    fn end_last_sums(&mut self, control: &JobControl) -> Result<bool> {
        let Some(&TimedStep { id, .. }) = self.timed.last() else { return Ok(true) };
        let is_of_input = self.call.reads_encoded(id);
        let value = &mut self.values[id.index()];
        let Some(GpuValue::Sums(sums)) = value else { return Ok(true) };
        if !is_of_input && !control.yields() {
            return Ok(true);
        }
        if !sums.is_almost_done(control)? {
            return Ok(false);
        }
        if is_of_input && let Some(GpuValue::Sums(sums)) = value.take() {
            let sums = sums.finish(control).map_err(|error| self.call.name_element(id, error))?;
            *value = Some(GpuValue::Sums(PendingSums::Done(sums)));
        }
        Ok(true)
    }

    /// Waits for all sums that the GPU computes. False if it computes none.
    fn finish_sums(&mut self, control: &JobControl) -> Result<bool> {
        let running = self.running_sums();
        for id in &running {
            self.wait_for_sums(*id, control)?;
        }
        Ok(!running.is_empty())
    }

    /// Waits for the next sums that are wanted early, and reports them. False if there are none.
    /// The last sums are not reported early: the run ends soon after them.
    fn report_early_sums(
        &mut self,
        operands: &RunOperands<'_>,
        control: &JobControl,
    ) -> Result<bool> {
        let listeners = |call: &RunCall, id| {
            let outputs = call.outputs_of(id).iter();
            outputs.filter_map(|output| operands.early_listener(*output)).collect::<Vec<_>>()
        };
        let running = self.running_sums();
        let Some((_, before_last)) = running.split_last() else { return Ok(false) };
        for &id in before_last {
            let listeners = listeners(&self.call, id);
            if listeners.is_empty() {
                continue;
            }
            let sums = self.wait_for_sums(id, control)?;
            listeners.into_iter().for_each(|listener| listener(&sums));
            return Ok(true);
        }
        Ok(false)
    }

    /// The steps whose sums the GPU computes.
    fn running_sums(&self) -> Vec<ValueId> {
        let is_running = |id: &ValueId| {
            let value = &self.values[id.index()];
            matches!(value, Some(GpuValue::Sums(PendingSums::Running { .. })))
        };
        self.call.program.ids().filter(is_running).collect()
    }

    fn wait_for_sums(&mut self, id: ValueId, control: &JobControl) -> Result<MsmSums> {
        let value = &mut self.values[id.index()];
        let Some(GpuValue::Sums(mut pending)) = value.take() else {
            return Err(Error::Internal("a step has no sums".into()));
        };
        while !pending.is_almost_done(control)? {}
        let done = pending.finish(control)?;
        let sums = done.sums.clone();
        *value = Some(GpuValue::Sums(PendingSums::Done(done)));
        Ok(sums)
    }

    fn launch(&mut self, id: ValueId, operands: &RunOperands<'_>) -> Result<LaunchedStep> {
        let call = &self.call;
        let values = &mut self.values;
        let missing = || Error::Internal("a value is missing".into());
        let mut inputs = Vec::new();
        // An MSM of an input that no step decodes reads the elements instead.
        let read = if call.reads_encoded(id) { &[][..] } else { call.inputs_of(id) };
        for input in read {
            match &values[input.index()] {
                Some(GpuValue::Vector(vector)) => inputs.push(vector.clone()),
                _ => return Err(missing()),
            }
        }
        // A step may overwrite a value that only it holds. An MSM does not, and may be tried again.
        let makes_points = matches!(call.value_type(id)?, ValueType::Points(_));
        for value in call.liveness.last_uses(id) {
            if !makes_points && !call.is_output(*value) {
                values[value.index()] = None;
            }
        }
        if call.is_input(id) {
            self.uploaded.push(id);
        }
        let context = GpuContext {
            gpu: &mut self.gpu,
            value_type: call.value_type(id)?,
            input: call.elements(id, operands),
            bases: call.bases(id, operands.bases),
            matrix: call.matrix(id, operands.matrices),
            is_checked: call.is_checked,
        };
        on_gpu(&call.program.steps()[id.index()]).launch(inputs, context)
    }

    /// Waits for all steps and delivers the outputs.
    ///
    /// Errors: `Invalid` for an element of an input that is not canonical; `Corrupt` if a check
    /// fails.
    pub fn finish(
        mut self: Box<Self>,
        operands: &RunOperands<'_>,
        control: &JobControl,
    ) -> Result<RunReport> {
        if let Some(TimedStep { done, .. }) = self.timed.last() {
            self.gpu.wait_for(done)?;
        }
        self.check_uploads()?;
        for TimedStep { id, begun, done } in &self.timed {
            self.report.steps[id.index()].duration = elapsed(begun, done)?;
        }
        let ids: Vec<_> = self.call.program.ids().collect();
        for (id, value) in ids.into_iter().zip(mem::take(&mut self.values)) {
            match value {
                Some(GpuValue::Sums(sums)) => self.deliver_sums(id, sums, control)?,
                Some(GpuValue::Vector(vector)) => self.deliver_vector(id, &vector, operands)?,
                Some(GpuValue::Elimination(_)) => {
                    return Err(Error::Internal("an elimination has not ended".into()));
                }
                None => {}
            }
        }
        Ok(mem::take(&mut self.report))
    }

    fn deliver_sums(
        &mut self,
        id: ValueId,
        mut pending: PendingSums,
        control: &JobControl,
    ) -> Result<()> {
        while !pending.is_almost_done(control)? {}
        let ComputedMsm { sums, executor } = pending.finish(control)?;
        let step = &mut self.report.steps[id.index()];
        step.duration += executor.stages.iter().map(|stage| stage.duration).sum::<Duration>();
        step.method = executor.device;
        add_stages(&mut self.report.executor.stages, &executor.stages);
        for &number in self.call.outputs_of(id) {
            self.report.points[number] = Some(sums.clone());
        }
        Ok(())
    }

    fn deliver_vector(
        &mut self,
        id: ValueId,
        vector: &GpuVector,
        operands: &RunOperands<'_>,
    ) -> Result<()> {
        let sinks = self.call.outputs_of(id).iter().map(|at| operands.sinks.get(*at)?.as_ref());
        let sinks: Option<Vec<&ElementSink<'_>>> = sinks.collect();
        let sinks = sinks.ok_or_else(|| Error::Internal("an output has no sink".into()))?;
        // Elements become canonical in place, so those as they are in memory go first.
        let in_memory = ScalarEncoding::in_memory(vector.field());
        let is_in_memory = |sink: &&ElementSink<'_>| sink.encoding == in_memory;
        type Sinks<'a> = Vec<&'a ElementSink<'a>>;
        let (unchanged, canonical): (Sinks<'_>, Sinks<'_>) =
            sinks.into_iter().partition(is_in_memory);
        for sink in unchanged {
            self.gpu.copy_out(vector, sink.sink)?;
        }
        if !canonical.is_empty() {
            self.gpu.encode(vector)?;
        }
        for sink in canonical {
            self.gpu.copy_out(vector, sink.sink)?;
        }
        Ok(())
    }
}

fn is_short_of_memory(launched: &Result<LaunchedStep>) -> bool {
    matches!(launched, Err(Error::Exhausted { limit: Limit::DeviceMemory, .. }))
}
