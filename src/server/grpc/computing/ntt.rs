//! NTT calls: turns a spec into a job and its rows into responses.
//!
//! An NTT writes its result to payload memory, like an upload: a vector that stays on the server is
//! not copied, and memory is allocated as rows arrive.

use std::{sync::Arc, time::Duration};

use super::single_step::{GivenVector, SingleStepJob, SingleStepRun};
use crate::grpc::{
    calls::{call::CallContext, call_record::JobRecorder},
    objects::regions::find_slice,
    requests::streamed_uploads::{FoundVector, StreamedUploads},
    responses::{
        response,
        result_stream::{ResultStream, SentVector, StreamTimes, StreamedResult},
        transport_parts::{bytes_of_chunks, bytes_of_message},
    },
};
use crate::{
    buffer::{RegionSlice, UploadBuffer},
    curve::{NttPlan, scalars::ScalarEncoding},
    error::{Error, FieldProblem, Result},
    exec::start_run,
    field::FieldId,
    jobs::{ComputeHost, FinishedJob, ProgramJobOutput, ProgramOutput},
    ops::{SINGLE_STEP, single_ntt},
    program::{InputSpec, OutputKind, OutputSpec},
    verify::Verification,
    wire::{
        decode::{RegionVector, RequestedNtt, UploadId, VectorUploadHeader, region_place},
        v1::{self, ntt_stream_response::Message},
    },
};

/// Where the rows of an NTT go.
pub enum RowsDelivery {
    /// Into the response, as one message.
    Message,
    /// Into the response, in chunks.
    Chunks,
    Kept,
    Region(RegionSlice),
}

impl RowsDelivery {
    /// Bytes that the response takes for rows of `row_bytes` bytes.
    fn response_bytes(&self, row_bytes: u64) -> u64 {
        match self {
            Self::Message => bytes_of_message(row_bytes),
            Self::Chunks => bytes_of_chunks(row_bytes),
            Self::Kept | Self::Region(_) => 0,
        }
    }
}

pub struct AdmittedNtt {
    pub job: SingleStepJob,
    pub encoding: ScalarEncoding,
    /// Receives the encoded rows, concatenated. Holds the permit for their bytes, unless they are
    /// in a region.
    pub rows: Arc<UploadBuffer>,
}

/// The part of a region that the result is written to.
///
/// Errors: `LocalOnly`; `Invalid` for an unknown region, a part beyond its end, or one that
/// overlaps the input.
pub fn find_output(
    call: &CallContext,
    spec: &RequestedNtt,
    place: Option<v1::RegionPlace>,
    input: &FoundVector,
) -> Result<Option<RegionSlice>> {
    let Some(place) = place else { return Ok(None) };
    let vector = RegionVector { place: region_place(place)?, encoding: spec.output_encoding };
    let slice = find_slice(call, vector, (spec.batch as u64) << spec.plan.lg_n)?;
    match input.slice().is_some_and(|input| slice.overlaps(input)) {
        true => Err(Error::field("region_output.offset", FieldProblem::Overlap)),
        false => Ok(Some(slice)),
    }
}

impl AdmittedNtt {
    /// Checks the lengths and admits the job. `payload_bytes` are those admitted separately for the
    /// input.
    ///
    /// Errors: `Invalid`, `Exhausted`, `Draining`; `Step` if the modelled time is too long.
    pub fn admit(
        call: &CallContext,
        requested: RequestedNtt,
        input: GivenVector,
        payload_bytes: u64,
        delivery: RowsDelivery,
    ) -> Result<Self> {
        let RequestedNtt { field, plan, batch, row_length, reduce, output_encoding, verify } =
            requested;
        if input.encoding.is_integer() {
            return Err(Error::field("encoding", FieldProblem::OutOfRange));
        }
        if !input.encoding.holds(field) {
            return Err(Error::field("encoding", FieldProblem::OtherEncoding));
        }
        let elements = input.rows("input", batch, row_length)?;
        let row_bytes = ((batch as u64) << plan.lg_n) * output_encoding.width() as u64;
        let result_bytes = match &delivery {
            RowsDelivery::Region(_) => 0,
            _ => row_bytes,
        };
        let response_bytes = delivery.response_bytes(row_bytes);
        let payload_bytes =
            result_bytes.saturating_add(response_bytes).saturating_add(payload_bytes);
        // Before the program is made, which refuses vectors that fit no memory with another error.
        call.check_fits(payload_bytes)?;
        let program = single_ntt(field, plan, batch, row_length)?;
        let mut single = SingleStepRun::new(call, program, elements, OutputKind::Elements, verify)?;
        let working_bytes = single.run.plan().memory_bytes;
        call.check_fits(working_bytes.saturating_add(payload_bytes))?;
        let modelled = single.limit_time(call, Duration::ZERO)?;
        call.admit_response(response_bytes)?;
        let result_permit = call.admit(result_bytes, 0)?;
        let permit = call.admit_job(working_bytes, modelled)?;
        let pool = &call.state.results;
        let rows = match delivery {
            RowsDelivery::Region(slice) => UploadBuffer::to_region(pool, slice),
            _ => UploadBuffer::new(pool, result_bytes, result_permit),
        };
        let (rows, encoding) = (Arc::new(rows), output_encoding);
        let job = SingleStepJob {
            call: "ntt",
            input_field: "input",
            run: single.run,
            elements,
            reduce,
            bases: Vec::new(),
            output: ProgramJobOutput::Elements { encoding, payload: rows.clone() },
            verify,
            row_length: 1 << plan.lg_n,
            permit,
        };
        Ok(Self { job, encoding, rows })
    }
}

/// Bytes that a forward NTT of one row of 2^lg_n elements takes, with its input and its result,
/// which is sent in chunks.
///
/// Errors: `Step` if the row is too long.
pub fn bytes_of_row(compute: &ComputeHost, lg_n: u32) -> Result<u64> {
    let (inverse, coset, input_reversed, output_reversed) = Default::default();
    let plan = NttPlan { lg_n, inverse, coset, input_reversed, output_reversed };
    let program = Arc::new(single_ntt(FieldId::Bls12381Fr, plan, 1, 1 << lg_n)?);
    let input = InputSpec { encoding: ScalarEncoding::Montgomery, count: 1 << lg_n };
    let output = OutputSpec { value: SINGLE_STEP, kind: OutputKind::Elements };
    let run = start_run(&*compute.executor, program, &[input], &[output], Verification::None)?;
    let (row_bytes, working_bytes) = (32_u64 << lg_n, run.plan().memory_bytes);
    Ok(working_bytes.saturating_add(2 * row_bytes).saturating_add(bytes_of_chunks(row_bytes)))
}

/// Records a job whose input arrived within `receive_time`.
pub fn result(
    recorder: &JobRecorder,
    finished: FinishedJob<ProgramOutput>,
    receive_time: Duration,
) -> v1::NttResult {
    let timing = recorder.record("ntt", &finished, receive_time);
    let execution = response::execution(finished.output.report);
    v1::NttResult { timing: Some(timing), execution: Some(execution) }
}

/// Stores the rows as a vector under a new random id.
pub fn store_rows(
    call: &CallContext,
    rows: Arc<UploadBuffer>,
    encoding: ScalarEncoding,
) -> Result<v1::Object> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|_| Error::Internal("no random bytes".into()))?;
    let count = rows.len() / encoding.width() as u64;
    let vector = VectorUploadHeader { id: UploadId(id), encoding, count, streams: 1 };
    call.state.uploads.insert(call.upload_owner(), vector.clone(), rows)?;
    call.origin().audit_vector(&id);
    Ok(response::vector_object(&vector))
}

/// The rows of an NTT, sent as they are computed.
pub struct StreamedRows(JobRecorder);

/// Queues `job` at once. `input` has one upload. Rows in a region are not sent.
pub fn stream_rows(
    call: &CallContext,
    AdmittedNtt { job, rows, .. }: AdmittedNtt,
    input: StreamedUploads,
) -> ResultStream<StreamedRows> {
    let (mut vectors, verify) = (Vec::new(), job.verify);
    if !rows.is_in_region() {
        vectors.push(SentVector { output: 0, payload: rows });
    }
    let ticket = job.submit(call, input.payload(0));
    ResultStream::new(call, StreamedRows(call.recorder()), verify, vectors, input, ticket)
}

impl StreamedResult for StreamedRows {
    type JobOutput = ProgramOutput;
    type Response = v1::NttStreamResponse;

    const OP: &'static str = "ntt_stream";

    fn chunk(&self, _: u32, chunk: v1::Chunk) -> v1::NttStreamResponse {
        v1::NttStreamResponse { message: Some(Message::Chunk(chunk)) }
    }

    fn summary(
        &self,
        finished: FinishedJob<ProgramOutput>,
        times: StreamTimes,
    ) -> v1::NttStreamResponse {
        let mut result = result(&self.0, finished, times.receive);
        result.timing = response::with_send_time(result.timing, times.send);
        v1::NttStreamResponse { message: Some(Message::Result(result)) }
    }
}
