//! Runs programs. `request` says what a run takes and wants, `plan` checks it, `transfer` sends and
//! receives, and `result` has what a run returns.

mod plan;
mod request;
mod result;
mod transfer;

use std::time::Duration;

use tokio::time::Instant;

use capstan_math::{
    builder::BuiltProgram,
    runner::{self, RunOptions, RunStep, ValueElements},
};
pub use request::{InputElements, ProgramRun};
pub use result::{RunEstimate, RunResult};

pub(crate) use self::{
    request::{Delivery, GivenElements, WantedOutput},
    result::OutputContent,
};

use self::{
    plan::{PlannedDelivery, PlannedOutput, RunPlan},
    result::ReturnedValue,
    transfer::{ProgramCall, RunReply},
};
use super::{
    Client, UploadKey, VectorInfo, Verification,
    call::{CallBudget, CallFuture},
    convert,
    error::{ClientError, Result},
    program,
};
use crate::wire::{
    self,
    v1::{self, program_input::Source, program_ref},
};
use crate::{
    connection::affinity::{AffinityKey, CallRoute},
    objects::{put_again::HeldObjects, release::ReleaseOnDrop},
    options::ElementSource,
    transfer::{
        download::DownloadProgress,
        staged_transfer::StagedVectors,
        vector_call::{CallTransfer, SentCall},
    },
};

impl Client {
    /// Stores a program, so that runs send its id instead of its steps. Returns the same program,
    /// with its id; a run puts it again if the server has dropped it.
    ///
    /// Errors: `Refused`; `InvalidResponse` if the server answers with another id than the hash of
    /// the program.
    pub async fn put_program(&self, program: &BuiltProgram) -> Result<BuiltProgram> {
        let mut call = self.begin_call(None)?;
        let route = self.program_route(program);
        let put = self.put_steps(program, &mut call, &route).await?;
        let id = put.program_id.as_ref().try_into();
        let id = id.map_err(|_| ClientError::invalid_response("the id is not 32 bytes long"))?;
        convert::require_id(&id, &wire::program_id(&wire::encoded(&program::message(program))))?;
        Ok(program.stored_as(id))
    }

    /// Runs a program in one call. Its inputs, except those in shared memory, are sent like those
    /// of other calls: small ones in the first message, large ones in chunks, over all connections
    /// if they are very large.
    ///
    /// Errors: `InvalidProgram` if inputs or outputs do not suit the program, with the path of the
    /// field; `InvalidInput` for a vector of another length than the value; `Refused`.
    pub async fn run(&self, run: ProgramRun<'_>) -> Result<RunResult> {
        self.run_with(run, RunOptions::default()).await
    }

    /// Like [`Self::run`], with a check of the steps, a deadline or progress.
    ///
    /// Errors: those of [`Self::run`]; `DeadlineExceeded`; `InvalidResponse` if the result was
    /// verified less than requested.
    pub async fn run_with(&self, run: ProgramRun<'_>, options: RunOptions) -> Result<RunResult> {
        let run: CallFuture<'_, RunResult> = Box::pin(async move {
            let mut result = self.run_borrowed(&run, &options).await?;
            result.return_vectors(run, &self.inner.copies);
            Ok(result)
        });
        run.await
    }

    /// Estimates a run without starting it. Inputs may be missing. Without outputs, the server
    /// assumes all values that no step reads.
    ///
    /// Errors: `InvalidProgram` if a value is of another program; `Refused`.
    pub async fn estimate(
        &self,
        run: &ProgramRun<'_>,
        verify: Verification,
    ) -> Result<RunEstimate> {
        let outputs = run.outputs.iter().map(|output| output.program);
        runner::check_values(&run.program, &run.inputs, outputs)?;
        let program = program_ref::Program::Inline(program::message(&run.program));
        let request = v1::EstimateRequest {
            program: Some(v1::ProgramRef { program: Some(program) }),
            outputs: run.outputs.iter().map(|output| output.value.0).collect(),
            verify: v1::Verify::from(verify).into(),
        };
        let route = self.program_route(&run.program);
        let estimate: CallFuture<'_, v1::EstimateResponse> = Box::pin(async move {
            let route = &route;
            let send = |request| async move { self.compute(route).estimate(request).await };
            self.begin_call(None)?.unary(request, send).await
        });
        let estimate = estimate.await?;
        let v1::EstimateResponse { engine, device, jobs_ahead, .. } = estimate;
        Ok(RunEstimate {
            input_bytes: estimate.input_bytes,
            output_bytes: estimate.output_bytes,
            value_bytes: estimate.value_bytes,
            scratch_bytes: estimate.scratch_bytes,
            engine,
            device,
            jobs_ahead,
            time_ahead: estimate.time_ahead_us.map(Duration::from_micros),
            modelled_time: Duration::from_micros(estimate.modelled_time_us),
        })
    }

    fn put_steps<'a>(
        &'a self,
        program: &'a BuiltProgram,
        call: &'a mut CallBudget,
        route: &'a CallRoute,
    ) -> CallFuture<'a, v1::PutProgramResponse> {
        Box::pin(async move {
            let send = |request| async move { self.store(route).put_program(request).await };
            let program = Some(program::message(program));
            call.unary(v1::PutProgramRequest { program }, send).await
        })
    }

    /// Runs a program; the result lacks the vectors that the run owns.
    async fn run_borrowed(&self, run: &ProgramRun<'_>, options: &RunOptions) -> Result<RunResult> {
        let mut call = self.begin_call(options.deadline)?;
        if run.vectors.iter().any(|vector| vector.region_id().is_some()) {
            call.retry_refusals_only();
        }
        let plan = RunPlan::new(run, self.inner.channels.len() > 1)?;
        let route = &self.run_route(&plan);
        // Releases what a failed call may have kept.
        let (mut kept, mut downloads) = (Vec::new(), Vec::new());
        for output in &plan.outputs {
            match output.delivery {
                PlannedDelivery::Keep(vector) => kept.push(self.guard(vector, route)),
                PlannedDelivery::Download(vector) => {
                    downloads.push((self.guard(vector, route), vector));
                }
                _ => {}
            }
        }
        let received: Vec<_> = plan.outputs.iter().map(PlannedOutput::received_bytes).collect();
        let sent_bytes = plan.sent_bytes();
        let total = sent_bytes + received.iter().sum::<u64>();
        let run_call = ProgramCall {
            plan: &plan,
            program: program::reference(&plan.program),
            verify: options.verify.into(),
            received: DownloadProgress::new(options.progress.clone(), sent_bytes, total),
        };
        let transfer = CallTransfer {
            client: self,
            call: &run_call,
            inputs: &plan.inputs,
            outputs: &received,
            route,
            progress: options.progress.as_ref(),
        };
        let mut held = HeldObjects::new(program::held(&plan.program));
        let mut has_program = false;
        let mut sent = loop {
            let error = match transfer.send(&mut call).await {
                Ok(sent) => break sent,
                Err(error) => error,
            };
            // The server has dropped the program; other missing objects have a field.
            if error.is_not_found() && error.field().is_none() && !has_program {
                has_program = true;
                self.put_steps(&plan.program, &mut call, route).await?;
            } else {
                held.put_again(error, self, route, &call).await?;
            }
        };
        let memory = sent.memory.take();
        let result = self.finish(&transfer, sent, memory.as_ref(), options, &call).await?;
        kept.iter_mut().for_each(|guard| guard.id = None);
        self.remember_kept(&plan, route);
        for (mut guard, vector) in downloads {
            if memory.is_some() {
                guard.id = None;
            }
            guard.release_sized(vector.count * vector.encoding.width() as u64).await;
        }
        if let Some(vectors) = memory {
            vectors.memory.release();
        }
        Ok(result)
    }

    fn guard(&self, vector: VectorInfo, route: &CallRoute) -> ReleaseOnDrop {
        ReleaseOnDrop::new(self, vector.id, route)
    }

    fn program_route(&self, program: &BuiltProgram) -> CallRoute {
        match program.objects().first().map(|object| object.id).or(program.id()) {
            Some(id) => self.route(|| AffinityKey::of_object(&id)),
            None => self.free_route(),
        }
    }

    /// A vector on the server decides, since the client cannot put it again; then the program's
    /// objects, and then vectors that the server keeps.
    fn run_route(&self, plan: &RunPlan<'_>) -> CallRoute {
        let mut inputs = plan.inputs.iter();
        let stored = inputs.find_map(|input| match &input.source {
            ElementSource::Named(Source::Stored(vector)) => {
                vector.upload_id.as_ref().try_into().ok()
            }
            _ => None,
        });
        if let Some(id) = stored {
            return self.vector_route(UploadKey(id));
        }
        let route = self.program_route(&plan.program);
        let mut outputs = plan.outputs.iter();
        let kept = outputs.find_map(|output| match output.delivery {
            PlannedDelivery::Keep(vector) | PlannedDelivery::Download(vector) => Some(vector.id),
            _ => None,
        });
        match kept {
            Some(id) if route.affinity.is_none() => self.route(|| AffinityKey::of_upload(id)),
            _ => route,
        }
    }

    /// Later calls that use kept vectors must reach the same server.
    fn remember_kept(&self, plan: &RunPlan<'_>, route: &CallRoute) {
        let Some(key) = route.affinity.as_ref().filter(|_| self.affinity.is_none()) else { return };
        for output in &plan.outputs {
            if let PlannedDelivery::Keep(vector) = output.delivery
                && AffinityKey::of_upload(vector.id) != *key
            {
                self.inner.vector_keys.insert(vector.id, key.clone());
            }
        }
    }

    /// Copies outputs from `memory`, downloads large ones, and checks and decodes all of them.
    async fn finish(
        &self,
        transfer: &CallTransfer<'_, ProgramCall<'_>>,
        sent: SentCall<RunReply>,
        memory: Option<&StagedVectors>,
        options: &RunOptions,
        call: &CallBudget,
    ) -> Result<RunResult> {
        let CallTransfer { call: ProgramCall { plan, received, .. }, route, .. } = transfer;
        let SentCall { reply: RunReply { result, vectors, download }, upload, .. } = sent;
        let started = Instant::now();
        let mut outputs = Vec::with_capacity(plan.outputs.len());
        let replied = vectors.into_iter().zip(&result.points).enumerate();
        for (output, (index, (mut elements, points))) in plan.outputs.iter().zip(replied) {
            let bytes = output.received_bytes();
            if let Some(memory) = memory.filter(|memory| memory.outputs[index].is_some()) {
                let count = bytes / output.field.element_bytes();
                elements = ValueElements::zeros(output.field, count)?;
                memory.copy_output(index, elements.as_bytes_mut(), &self.inner.copies);
                received.add(bytes);
            } else if let PlannedDelivery::Download(vector) = &output.delivery {
                elements = ValueElements::zeros(output.field, vector.count)?;
                let bytes = elements.as_bytes_mut();
                let route = (*route).clone();
                self.read_vector(vector, route, bytes, received, call.deadline).await?;
            }
            convert::check_elements(&mut elements)?;
            let content = match output.delivery {
                PlannedDelivery::Send { .. } | PlannedDelivery::Download(_) => {
                    OutputContent::Vector(elements)
                }
                PlannedDelivery::Keep(vector) => OutputContent::Kept(vector),
                PlannedDelivery::Points(shape) => {
                    OutputContent::Points(plan::decode_points(shape, points)?)
                }
                PlannedDelivery::Region(_) => OutputContent::InRegion,
            };
            outputs.push(ReturnedValue { value: output.value, content });
        }
        let (download, total) = (download + started.elapsed(), call.deadline.elapsed());
        Ok(RunResult {
            program: plan.program.tag(),
            outputs,
            timing: convert::timing(result.timing, upload, download, total),
            execution: convert::execution(result.execution, options.verify)?,
            steps: result.steps.into_iter().map(run_step).collect(),
        })
    }
}

fn run_step(step: v1::StepReport) -> RunStep {
    let verified = convert::verification(step.verified());
    let v1::StepReport { operation, time_us, method, .. } = step;
    RunStep { operation, time: Duration::from_micros(time_us), method, verified }
}
