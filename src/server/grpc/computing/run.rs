//! Run calls: turns a header into a job.

use std::sync::Arc;

use super::{
    program_call::{FoundInput, FoundSource, find_bases, find_inputs, find_matrices, find_program},
    program_limits::{BytesOfRun, check_time},
    run_outputs::{
        CallOutputs, ReadSlice, StreamedOutputs, check_encodings, early_message, early_points,
        output_spec, response_bytes,
    },
};
use crate::grpc::{
    calls::call::CallContext,
    objects::regions,
    requests::{
        receive::{PieceContent, UploadPiece},
        streamed_uploads::{FoundRegion, StreamedUploads},
    },
    responses::{
        early_messages::EarlyMessages,
        result_stream::{ResultStream, SentVector},
    },
};
use crate::{
    buffer::{RegionSlice, UploadBuffer},
    error::{Error, FieldProblem, Result},
    exec::{OutputWrites, start_run},
    jobs::{InputPayload, JobBases, JobPermit, ProgramJob, ProgramJobInput, ProgramWork},
    ops::OperationProgram,
    program::{ExternalOperand, InputSpec, Liveness, ResultMemory, StepKind, ValueId, VectorShape},
    store::{UploadStreamGuard, UploadUseGuard},
    verify::Verification,
    wire::{
        decode::{OutputDelivery, RunOutput, RunSpec, required},
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
    result: StreamedOutputs,
}

impl AdmittedRun {
    /// Finds what the call names, checks it against the program, admits all bytes, and opens the
    /// uploads.
    ///
    /// Errors: `NotFound`, `Step` (also if the modelled time is too long), `Item`, `Invalid`,
    /// `Mismatch`, `UploadConflict`, `Exhausted`, `Draining`.
    pub fn admit(call: &CallContext, spec: RunSpec) -> Result<Self> {
        let (state, verify) = (&call.state, spec.verify);
        let program = find_program(call, spec.program)?;
        let bases = find_bases(call, &program)?;
        let matrices = find_matrices(call, &program)?;
        let mut inputs = find_inputs(call, &program, spec.inputs)?;
        let given: Vec<_> = inputs.iter().map(FoundInput::spec).collect();
        check_encodings(&program, &spec.outputs)?;
        let wanted: Vec<_> = spec.outputs.iter().map(output_spec).collect();
        let executor = &*state.compute.executor;
        let mut run = start_run(executor, program.clone(), &given, &wanted, verify)?;
        let response_bytes = response_bytes(call, &program, &spec.outputs)?;
        let plan = run.plan();
        let (working_bytes, modelled) = (plan.memory_bytes, plan.modelled);
        let written = written_slices(call, &program, &spec.outputs);
        mark_copies(&mut inputs, &written, verify, plan.writes);
        let bytes = BytesOfRun::new(call, &program, plan, &inputs, &spec.outputs, response_bytes)?;
        bytes.check(call, &program)?;
        check_time(call, &program, modelled)?;
        run.limit_time_on_host(state.settings.program_time_max);
        call.admit_response(response_bytes)?;
        let permit = call.admit_job(working_bytes, modelled.total)?;
        let in_regions = read_slices(&program, &inputs, &spec.outputs)?;
        let outputs = CallOutputs::admit(call, &program, &in_regions, &spec.outputs)?;
        let mut uploads = StreamedUploads::new(call);
        let mut opened = OpenedInputs::default();
        for input in inputs {
            opened.open(call, &mut uploads, input)?;
        }
        let (early_points, early) = early_points(&spec.outputs, verify).unzip();
        let early = early.map(|points| EarlyMessages { points, message: early_message });
        let lengths = program.ids().filter_map(|value| program.shape(value));
        let job = ProgramJob {
            call: "run",
            run,
            inputs: opened.job,
            input_field: None,
            bases: bases.into_iter().map(JobBases::Checked).collect(),
            matrices,
            outputs: outputs.job,
            early_points,
            verify,
            states_modelled_time: true,
            steps: program.steps().len(),
            row_length: lengths.map(VectorShape::length).max().unwrap_or(0),
        };
        let result = StreamedOutputs {
            state: state.clone(),
            recorder: call.recorder(),
            kept: outputs.kept,
            _inputs_in_use: opened.in_use,
        };
        let (upload_of_input, sent) = (opened.upload_of_input, outputs.sent);
        Ok(Self { job, permit, uploads, upload_of_input, sent, early, result })
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
    pub fn submit(self, call: &CallContext) -> ResultStream<StreamedOutputs> {
        let Self { job, permit, uploads, sent, early, result, .. } = self;
        let verify = job.verify;
        let host = call.state.compute.clone();
        let ticket = call.submit(permit, |waker| ProgramWork::new(host, job, waker));
        ResultStream::new(call, result, verify, sent, uploads, ticket).with_early_messages(early)
    }
}

/// The inputs in regions.
fn read_slices(
    program: &OperationProgram,
    inputs: &[FoundInput],
    outputs: &[RunOutput],
) -> Result<Vec<ReadSlice>> {
    if !inputs.iter().any(|input| input.region().is_some()) {
        return Ok(Vec::new());
    }
    let wanted: Vec<_> = outputs.iter().map(|output| output.value).collect();
    let liveness = Liveness::new(program, &wanted, ResultMemory::Reused)?;
    let reads = |id: ValueId, input| {
        liveness.is_needed(id) && program.steps()[id.index()].inputs().ids().contains(&input)
    };
    let values = program.operands(ExternalOperand::Input).zip(inputs);
    let slices = values.filter_map(|(value, input)| {
        let slice = &input.region()?.slice;
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
        let Some(FoundRegion { slice, is_copied, .. }) = input.region_mut() else { continue };
        let spoils = |written: &RegionSlice| match writes {
            OutputWrites::AfterStep => false,
            OutputWrites::RowByRow => !written.is_same_or_apart(slice),
            OutputWrites::AnyTime => written.overlaps(slice),
        };
        *is_copied = verify != Verification::None || written.iter().any(spoils);
    }
}

#[derive(Default)]
struct OpenedInputs {
    job: Vec<ProgramJobInput>,
    upload_of_input: Vec<Option<usize>>,
    in_use: Vec<UploadUseGuard>,
}

impl OpenedInputs {
    fn open(
        &mut self,
        call: &CallContext,
        uploads: &mut StreamedUploads,
        input: FoundInput,
    ) -> Result<()> {
        let InputSpec { encoding, count } = input.spec();
        let unadmitted = input.unadmitted_bytes(call)?;
        let FoundInput { source, reduce } = input;
        let (mut first, mut upload_index) = (0, None);
        let pool = &call.state.inputs;
        let InputPayload { payload, copy } = match source {
            FoundSource::Inline { data, .. } => {
                let permit = call.admit(unadmitted, 0)?;
                let payload = Arc::new(UploadBuffer::from_bytes(pool, &data, permit)?);
                InputPayload { payload, copy: None }
            }
            FoundSource::Region(region) => {
                let copy = region.copy(call)?;
                let payload = Arc::new(UploadBuffer::in_region(pool, region.slice));
                InputPayload { payload, copy }
            }
            FoundSource::Stored { upload, offset, .. } => {
                first = offset;
                let payload = upload.upload().payload.clone();
                self.in_use.push(upload);
                InputPayload { payload, copy: None }
            }
            FoundSource::Streamed(vector) => {
                let index = uploads.open(call, vector)?;
                upload_index = Some(index);
                uploads.payload(index)
            }
        };
        self.upload_of_input.push(upload_index);
        self.job.push(ProgramJobInput { payload, copy, encoding, reduce, first, count });
        Ok(())
    }
}
