//! Turns a call of a program into a job.

use std::sync::Arc;

use super::{
    found_call::{CallKind, FoundCall, FoundInput, FoundSource},
    program_limits::{BytesOfRun, check_time},
    run_outputs::{
        CallOutputs, KeptOutputs, ReadSlice, StreamedOutputs, check_encodings, early_message,
        early_points, output_spec, response_bytes,
    },
};
use crate::grpc::{
    calls::call::CallContext,
    objects::regions,
    requests::{
        receive::{PieceContent, UploadPiece},
        streamed_uploads::StreamedUploads,
    },
    responses::result_stream::{EarlyMessages, ResultStream, SentVector},
};
use crate::{
    buffer::{RegionSlice, UploadBuffer},
    error::{Error, FieldProblem, Result},
    exec::{ModelledTime, OutputWrites, ProgramPlan, start_run},
    jobs::{JobPermit, JobTicket, ProgramJob, ProgramOutput, ProgramWork},
    ops::OperationProgram,
    program::{ExternalOperand, Liveness, ResultMemory, StepKind, ValueId, VectorShape},
    store::{UploadStreamGuard, UploadUseGuard},
    verify::Verification,
    wire::{
        decode::{OutputDelivery, RunOutput, required},
        v1::{self, run_request::Message},
    },
};

/// A call of a program with its memory.
pub struct AdmittedRun {
    job: ProgramJob,
    permit: JobPermit,
    uploads: StreamedUploads,
    /// For each input, its index among the uploads.
    upload_of_input: Vec<Option<usize>>,
    sent: Vec<SentVector>,
    early: Option<EarlyMessages<v1::RunResponse>>,
    kept: Option<KeptOutputs>,
    in_use: Vec<UploadUseGuard>,
}

/// A call whose job is queued. Dropping the ticket cancels it.
pub struct SubmittedRun {
    pub ticket: JobTicket<ProgramOutput>,
    pub uploads: StreamedUploads,
    pub verify: Verification,
    /// The vectors to send.
    pub sent: Vec<SentVector>,
    pub early: Option<EarlyMessages<v1::RunResponse>>,
    pub kept: Option<KeptOutputs>,
    /// Keeps the vectors that the job reads.
    pub in_use: Vec<UploadUseGuard>,
}

impl AdmittedRun {
    /// Checks a call against its program, admits all bytes, and opens the uploads.
    ///
    /// Errors: `Invalid`, `ProgramTooLarge`, `UploadConflict`, `Exhausted`, `Draining`.
    pub fn admit(call: &CallContext, mut found: FoundCall) -> Result<Self> {
        let state = &call.state;
        let verify = found.verify;
        let program = found.program.clone();
        let given: Vec<_> = found.inputs.iter().map(|input| input.spec).collect();
        check_encodings(&program, &found.outputs)?;
        let wanted: Vec<_> = found.outputs.iter().map(output_spec).collect();
        let executor = &*state.compute.executor;
        let mut run = start_run(executor, program.clone(), &given, &wanted, verify)?;
        let response_bytes = response_bytes(call, &found)?;
        let ProgramPlan { memory_bytes, modelled, writes, .. } = *run.plan();
        let written = written_slices(call, &program, &found.outputs);
        mark_copies(&mut found.inputs, &written, verify, writes);
        BytesOfRun::new(call, &found, run.plan(), response_bytes)?.check(call, &found)?;
        let total = modelled.total.saturating_add(found.check_time(&state.compute));
        check_time(call, &program, ModelledTime { total, ..modelled })?;
        run.limit_time_on_host(state.settings.program_time_max);
        call.admit_response(response_bytes)?;
        let permit = call.admit_job(memory_bytes.saturating_add(found.bases_bytes()), total)?;
        let FoundCall { kind, bases, matrices, inputs, outputs: wanted, .. } = found;
        let in_regions = read_slices(&program, &inputs, &wanted)?;
        let outputs = CallOutputs::admit(call, &program, &in_regions, &wanted)?;
        let mut uploads = StreamedUploads::new(call);
        let mut inputs_of_job = Vec::with_capacity(inputs.len());
        let mut upload_of_input = Vec::with_capacity(inputs.len());
        let mut in_use = Vec::new();
        for input in inputs {
            let opened = input.open(call, &mut uploads)?;
            inputs_of_job.push(opened.job);
            upload_of_input.push(opened.upload);
            in_use.extend(opened.in_use);
        }
        let (early_points, early) = early_points(&wanted, verify).unzip();
        let early = early.map(|points| EarlyMessages { points, message: early_message });
        let lengths = program.ids().filter_map(|value| program.shape(value));
        let job = ProgramJob {
            call: kind.name(),
            run,
            inputs: inputs_of_job,
            input_field: kind.input_field(),
            bases,
            matrices,
            outputs: outputs.job,
            early_points,
            verify,
            states_modelled_time: kind == CallKind::Run,
            steps: program.steps().len(),
            row_length: lengths.map(VectorShape::length).max().unwrap_or(0),
        };
        let CallOutputs { sent, kept, .. } = outputs;
        Ok(Self { job, permit, uploads, upload_of_input, sent, early, kept, in_use })
    }

    /// The payloads of the inputs.
    pub fn payloads(&self) -> Vec<Arc<UploadBuffer>> {
        self.job.inputs.iter().map(|input| input.payload.clone()).collect()
    }

    /// Errors: `Exhausted` if too many streams carry one of the uploads.
    pub fn begin_streams(&self) -> Result<Vec<UploadStreamGuard>> {
        self.uploads.begin_streams()
    }

    /// Finds the upload that the piece in a message belongs to.
    pub fn piece_reader(&self) -> impl Fn(v1::RunRequest) -> Result<UploadPiece> + use<> {
        let upload_of_input = self.upload_of_input.clone();
        let upload = move |field, input: u32| {
            let upload = upload_of_input.get(input as usize).copied().flatten();
            upload.ok_or(Error::field(field, FieldProblem::OutOfRange))
        };
        move |request| match request.message {
            Some(Message::Chunk(v1::RunInputChunk { input, chunk })) => Ok(UploadPiece {
                upload: upload("chunk.input", input)?,
                content: PieceContent::Chunk(required("chunk.chunk", chunk)?),
            }),
            Some(Message::Written(v1::RunInputRange { input, range })) => Ok(UploadPiece {
                upload: upload("written.input", input)?,
                content: PieceContent::Written(required("written.range", range)?),
            }),
            _ => Err(Error::field("message", FieldProblem::OutOfRange)),
        }
    }

    /// Queues the job at once.
    pub fn submit(self, call: &CallContext) -> SubmittedRun {
        let Self { job, permit, uploads, sent, early, kept, in_use, .. } = self;
        let verify = job.verify;
        let host = call.state.compute.clone();
        let ticket = call.submit(permit, |waker| ProgramWork::new(host, job, waker));
        SubmittedRun { ticket, uploads, verify, sent, early, kept, in_use }
    }
}

impl SubmittedRun {
    /// The response of a Run call.
    pub fn into_response(self, call: &CallContext) -> ResultStream<StreamedOutputs> {
        let Self { ticket, uploads, verify, sent, early, kept, in_use } = self;
        let result = StreamedOutputs {
            state: call.state.clone(),
            recorder: call.recorder(),
            kept,
            _inputs_in_use: in_use,
        };
        ResultStream::new(call, result, verify, sent, uploads, ticket).with_early_messages(early)
    }
}

/// The inputs in regions.
fn read_slices(
    program: &OperationProgram,
    inputs: &[FoundInput],
    outputs: &[RunOutput],
) -> Result<Vec<ReadSlice>> {
    if !inputs.iter().any(|input| input.slice().is_some()) {
        return Ok(Vec::new());
    }
    let wanted: Vec<_> = outputs.iter().map(|output| output.value).collect();
    let liveness = Liveness::new(program, &wanted, ResultMemory::Reused)?;
    let reads = |id: ValueId, input| {
        liveness.is_needed(id) && program.steps()[id.index()].inputs().ids().contains(&input)
    };
    let values = program.operands(ExternalOperand::Input).zip(inputs);
    let slices = values.filter_map(|(value, input)| {
        let slice = input.slice()?;
        let last_read = program.ids().filter(|id| reads(*id, value)).last().unwrap_or(value);
        Some(ReadSlice { slice: slice.clone(), last_read })
    });
    Ok(slices.collect())
}

/// The parts of regions that outputs are written to. Those that do not exist are refused later.
fn written_slices(
    call: &CallContext,
    program: &OperationProgram,
    outputs: &[RunOutput],
) -> Vec<RegionSlice> {
    let slices = outputs.iter().filter_map(|output| {
        let OutputDelivery::Region(vector) = output.delivery else { return None };
        let count = program.shape(output.value)?.elements();
        regions::find_slice(call, vector, count).ok()
    });
    slices.collect()
}

/// Decides which inputs in regions the job copies: those of a checked call, which are read again
/// when the client may have changed them, and those that an early write would spoil.
fn mark_copies(
    inputs: &mut [FoundInput],
    written: &[RegionSlice],
    verify: Verification,
    writes: OutputWrites,
) {
    for input in inputs {
        let FoundSource::Region { slice, is_copied, .. } = &mut input.source else { continue };
        let spoils = |written: &RegionSlice| match writes {
            OutputWrites::AfterStep => false,
            OutputWrites::RowByRow => !written.is_same_or_apart(slice),
            OutputWrites::AnyTime => written.overlaps(slice),
        };
        *is_copied = verify != Verification::None || written.iter().any(spoils);
    }
}
