//! The outputs of Run calls: memory for them, and the messages that carry them.

use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::found_call::{CallKind, FoundCall};
use crate::grpc::{
    callers::call_origin::CallOrigin,
    calls::{call::CallContext, call_record::JobRecorder},
    objects::regions,
    responses::{
        response::{self, as_micros_u64},
        result_stream::{SentVector, StreamTimes, StreamedResult},
        transport_parts::{bytes_of_chunks, bytes_of_message},
    },
    state::ServerState,
};
use crate::{
    buffer::{RegionSlice, UploadBuffer},
    error::{Error, FieldProblem, Result},
    exec::StepReport,
    jobs::{EarlyPoints, FinishedJob, PointsOfOutput, ProgramJobOutput, ProgramOutput},
    ops::OperationProgram,
    program::{OutputKind, OutputSpec, ValueId, ValueType, VectorShape},
    store::{KeptVectors, UploadUseGuard},
    telemetry,
    verify::Verification,
    wire::{
        decode::{OutputDelivery, RunOutput, VectorUploadHeader},
        v1::{self, run_response::Message},
    },
};

/// The outputs of a program.
pub struct CallOutputs {
    pub job: Vec<ProgramJobOutput>,
    pub sent: Vec<SentVector>,
    pub kept: Option<KeptOutputs>,
}

/// An input in a region.
pub struct ReadSlice {
    pub slice: RegionSlice,
    /// The last step that reads it.
    pub last_read: ValueId,
}

pub struct KeptOutputs {
    reserved: KeptVectors,
    vectors: Vec<VectorUploadHeader>,
    payloads: Vec<Arc<UploadBuffer>>,
}

impl KeptOutputs {
    /// Stores the vectors. Returns their headers.
    ///
    /// Errors: `UploadConflict`.
    pub fn keep(self, state: &ServerState, origin: &CallOrigin) -> Result<Vec<VectorUploadHeader>> {
        let Self { reserved, vectors, payloads } = self;
        state.uploads.keep(reserved, payloads)?;
        vectors.iter().for_each(|vector| origin.audit_vector(&vector.id.0));
        Ok(vectors)
    }
}

pub fn output_spec(output: &RunOutput) -> OutputSpec {
    let kind = match output.delivery {
        OutputDelivery::Points { .. } => OutputKind::Points,
        OutputDelivery::Send(_) | OutputDelivery::Keep { .. } | OutputDelivery::Region(_) => {
            OutputKind::Elements
        }
    };
    OutputSpec { value: output.value, kind }
}

/// Checks that the encodings of vectors are those of their fields.
///
/// Errors: `Invalid` for the first output with another one.
pub fn check_encodings(program: &OperationProgram, outputs: &[RunOutput]) -> Result<()> {
    let is_wrong = |output: &RunOutput| {
        let encoding = match output.delivery {
            OutputDelivery::Points { .. } => return false,
            OutputDelivery::Send(encoding) | OutputDelivery::Keep { encoding, .. } => encoding,
            OutputDelivery::Region(vector) => vector.encoding,
        };
        let shape = program.shape(output.value);
        shape.is_some_and(|shape| !encoding.holds(shape.field()))
    };
    match outputs.iter().position(is_wrong) {
        Some(index) => Err(Error::element("outputs", index as u64, FieldProblem::OtherEncoding)),
        None => Ok(()),
    }
}

/// Bytes of a vector to send or to keep; 0 for points, and in a region.
pub fn vector_bytes(program: &OperationProgram, output: &RunOutput) -> u64 {
    let elements = program.shape(output.value).map_or(0, VectorShape::elements);
    match output.delivery {
        OutputDelivery::Send(encoding) | OutputDelivery::Keep { encoding, .. } => {
            elements * encoding.width() as u64
        }
        OutputDelivery::Points { .. } | OutputDelivery::Region(_) => 0,
    }
}

/// Bytes of the report of a step, rounded up.
const STEP_REPORT_BYTES: u64 = 128;

/// Bytes that the response of a Run call takes while nobody reads it: vectors of `sent_bytes`
/// bytes, points, and a report of each step.
pub fn unread_bytes(program: &OperationProgram, sent_bytes: u64, point_bytes: u64) -> u64 {
    let report_bytes = program.steps().len() as u64 * STEP_REPORT_BYTES;
    bytes_of_chunks(sent_bytes) + bytes_of_message(point_bytes + report_bytes)
}

/// Bytes that the response takes while nobody reads it. Checks that the points fit in the message
/// with the result.
pub fn response_bytes(call: &CallContext, found: &FoundCall) -> Result<u64> {
    let FoundCall { kind, program, outputs, .. } = found;
    let point_bytes = outputs.iter().map(|output| match program.value_type(output.value) {
        Some(ValueType::Points(points)) => match output.delivery {
            OutputDelivery::Points { encoding, .. } => {
                u64::from(points.count) * encoding.point_bytes(points.group) as u64
            }
            _ => 0,
        },
        _ => 0,
    });
    let point_bytes = point_bytes.sum::<u64>();
    let max = call.state.settings.message_payload_bytes_max;
    if point_bytes > max {
        return Err(Error::field("outputs", FieldProblem::TooLarge { max }));
    }
    let is_sent = |output: &&RunOutput| matches!(output.delivery, OutputDelivery::Send(_));
    let sent = outputs.iter().filter(is_sent).map(|output| vector_bytes(program, output));
    let sent = sent.fold(0, u64::saturating_add);
    // Points that are sent early are sent twice.
    let has_early = outputs.iter().any(RunOutput::is_early);
    let early_bytes = if has_early { bytes_of_message(point_bytes) } else { 0 };
    let unread = match kind {
        CallKind::Run => unread_bytes(program, sent, point_bytes),
        CallKind::Msm => bytes_of_message(point_bytes),
        CallKind::Ntt => bytes_of_chunks(sent),
        CallKind::NttInMessage => bytes_of_message(sent),
    };
    Ok(unread + early_bytes)
}

/// The outputs whose points are sent early, and what the job sends them to. Checked points are
/// known at the end only.
pub fn early_points(
    outputs: &[RunOutput],
    verify: Verification,
) -> Option<(EarlyPoints, UnboundedReceiver<PointsOfOutput>)> {
    let early = outputs.iter().enumerate().filter(|(_, output)| output.is_early());
    let outputs: Vec<_> = early.map(|(number, _)| number).collect();
    if outputs.is_empty() || verify != Verification::None {
        return None;
    }
    let (sender, receiver) = unbounded_channel();
    Some((EarlyPoints::new(outputs, sender), receiver))
}

/// The message with points that are sent early.
pub fn early_message(PointsOfOutput { output, points }: PointsOfOutput) -> v1::RunResponse {
    let points = v1::RunOutputPoints { output, points: points.into() };
    v1::RunResponse { message: Some(Message::Points(points)) }
}

impl CallOutputs {
    /// `inputs` are those in regions.
    pub fn admit(
        call: &CallContext,
        program: &OperationProgram,
        inputs: &[ReadSlice],
        outputs: &[RunOutput],
    ) -> Result<Self> {
        let mut written = Vec::new();
        let (mut job, mut sent) = (Vec::new(), Vec::new());
        let (mut vectors, mut payloads) = (Vec::new(), Vec::new());
        for (index, output) in outputs.iter().enumerate() {
            let bytes = vector_bytes(program, output);
            let payload = || {
                let payload = |permit| UploadBuffer::new(&call.state.results, bytes, permit);
                call.admit(bytes, 0).map(payload).map(Arc::new)
            };
            job.push(match output.delivery {
                OutputDelivery::Points { encoding, .. } => ProgramJobOutput::Points(encoding),
                OutputDelivery::Region(vector) => {
                    let of_item = |error: Error| error.of_item("outputs", index, "region");
                    let count = program.shape(output.value);
                    let count = count.map_or(0, VectorShape::elements);
                    let slice = regions::find_slice(call, vector, count).map_err(of_item)?;
                    let is_read = |input: &ReadSlice| {
                        input.last_read > output.value && slice.overlaps(&input.slice)
                    };
                    if inputs.iter().any(is_read) || written.iter().any(|s| slice.overlaps(s)) {
                        let overlap = Error::field("offset", FieldProblem::Overlap);
                        return Err(of_item(overlap));
                    }
                    written.push(slice.clone());
                    let payload = UploadBuffer::to_region(&call.state.results, slice);
                    let encoding = vector.encoding;
                    let payload = Arc::new(payload);
                    ProgramJobOutput::Elements { encoding, payload }
                }
                OutputDelivery::Send(encoding) => {
                    let payload = payload()?;
                    sent.push(SentVector { output: index as u32, payload: payload.clone() });
                    ProgramJobOutput::Elements { encoding, payload }
                }
                OutputDelivery::Keep { id, encoding } => {
                    let payload = payload()?;
                    let count = bytes / encoding.width() as u64;
                    vectors.push(VectorUploadHeader { id, encoding, count, streams: 1 });
                    payloads.push(payload.clone());
                    ProgramJobOutput::Elements { encoding, payload }
                }
            });
        }
        let kept = match vectors.is_empty() {
            true => None,
            false => Some(KeptOutputs {
                reserved: call.state.uploads.reserve(call.upload_owner(), vectors.clone())?,
                vectors,
                payloads,
            }),
        };
        Ok(Self { job, sent, kept })
    }
}

/// The outputs of a program, sent as they are computed.
pub struct StreamedOutputs {
    pub state: Arc<ServerState>,
    pub recorder: JobRecorder,
    pub kept: Option<KeptOutputs>,
    pub _inputs_in_use: Vec<UploadUseGuard>,
}

impl StreamedResult for StreamedOutputs {
    type JobOutput = ProgramOutput;
    type Response = v1::RunResponse;

    const OP: &'static str = "run";

    fn conclude(&mut self) -> Result<()> {
        let kept = self.kept.take();
        kept.map_or(Ok(()), |kept| kept.keep(&self.state, &self.recorder.origin).map(drop))
    }

    fn chunk(&self, output: u32, chunk: v1::Chunk) -> v1::RunResponse {
        let chunk = v1::RunOutputChunk { output, chunk: Some(chunk) };
        v1::RunResponse { message: Some(Message::Chunk(chunk)) }
    }

    fn summary(&self, finished: FinishedJob<ProgramOutput>, times: StreamTimes) -> v1::RunResponse {
        let timing = self.recorder.record("run", &finished, times.receive);
        let timing = response::with_send_time(Some(timing), times.send);
        let FinishedJob { output, timing: job_timing } = finished;
        let ProgramOutput { points, steps, modelled_time, report, batch_jobs, .. } = output;
        // A batch takes longer than the model of one of its jobs.
        if let (Some(modelled), 1) = (modelled_time, batch_jobs) {
            let engine = report.executor.engine;
            telemetry::record_modelled_time_ratio(engine, modelled, job_timing.run);
        }
        let execution = Some(response::execution(report));
        let points = points.into_iter().map(Into::into).collect();
        let steps = steps.into_iter().map(step_report).collect();
        let result = v1::RunResult { points, timing, execution, steps };
        v1::RunResponse { message: Some(Message::Result(result)) }
    }
}

fn step_report(step: StepReport) -> v1::StepReport {
    v1::StepReport {
        operation: step.operation.into(),
        time_us: as_micros_u64(step.duration),
        method: step.method,
        verified: v1::Verify::from(step.verified).into(),
    }
}
