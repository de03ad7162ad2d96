//! NTT calls: turns a spec into a job and its rows into responses.

use std::{sync::Arc, time::Duration};

use super::{
    call::CallContext,
    call_record,
    receive::StreamedUploads,
    response,
    result_stream::{ResultStream, SentVector, StreamTimes, StreamedResult},
};
use crate::{
    buffer::UploadBuffer,
    curve::scalars::ScalarEncoding,
    error::{Error, FieldProblem, Limit, Result},
    jobs::{
        AdmissionPermit, FinishedJob, JobReport, JobTicket, NttJob, NttSpec, NttWork, check_count,
    },
    wire::{
        decode::{UploadId, VectorUploadHeader},
        v1::{self, ntt_stream_response::Message},
    },
};

pub struct AdmittedNtt {
    pub job: NttJob,
    permit: AdmissionPermit,
    /// Receives the encoded rows, concatenated. Holds the permit for their bytes.
    pub rows: Arc<UploadBuffer>,
}

impl AdmittedNtt {
    /// Checks the lengths and admits the job. `payload_bytes` are those admitted separately for the
    /// input.
    ///
    /// Errors: `Invalid`, `Exhausted`, `Draining`.
    pub fn admit(
        call: &CallContext,
        spec: NttSpec,
        vector: &VectorUploadHeader,
        payload_bytes: u64,
    ) -> Result<Self> {
        if !vector.encoding.is_full() {
            return Err(Error::field("encoding", FieldProblem::OutOfRange));
        }
        check_count("input", vector.count, spec.batch, spec.row_length)?;
        // A size that overflows exceeds any budget.
        let never = Error::Exhausted { limit: Limit::BytesInFlight, retry_after: None };
        let result_bytes = spec.result_bytes().ok_or(never.clone())?;
        let scratch_bytes = spec.scratch_bytes(call.state.compute.engine.as_ref()).ok_or(never)?;
        call.check_fits(scratch_bytes.saturating_add(result_bytes).saturating_add(payload_bytes))?;
        let result_permit = call.admit(result_bytes, 0)?;
        let permit = call.admit(scratch_bytes, 1)?;
        let rows = spec.result_buffer(&call.state.payloads, result_permit)?;
        let job = NttJob { spec, input_encoding: vector.encoding };
        Ok(Self { job, permit, rows })
    }

    pub fn submit(self, call: &CallContext, payload: Arc<UploadBuffer>) -> JobTicket<JobReport> {
        let Self { job, permit, rows } = self;
        let host = call.state.compute.clone();
        call.submit(permit, |waker| NttWork::new(host, job, payload, rows, waker))
    }
}

/// Records a job whose input arrived within `receive_time`.
pub fn result(finished: FinishedJob<JobReport>, receive_time: Duration) -> v1::NttResult {
    let timing = call_record::job("ntt", &finished, receive_time);
    v1::NttResult { timing: Some(timing), execution: Some(response::execution(finished.output)) }
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
    call.state.uploads.insert(vector.clone(), rows)?;
    Ok(response::vector_object(&vector))
}

/// The rows of an NTT, sent as they are computed.
pub struct StreamedRows;

/// Queues `job` at once. `input` has one upload.
pub fn stream_rows(
    call: &CallContext,
    job: AdmittedNtt,
    input: StreamedUploads,
) -> ResultStream<StreamedRows> {
    let vectors = vec![SentVector { output: 0, payload: job.rows.clone() }];
    let verify = job.job.spec.verify;
    let ticket = job.submit(call, input.payload(0).clone());
    ResultStream::new(call, StreamedRows, verify, vectors, input, ticket)
}

impl StreamedResult for StreamedRows {
    type JobOutput = JobReport;
    type Response = v1::NttStreamResponse;

    const OP: &'static str = "ntt_stream";

    fn chunk(&self, _: u32, chunk: v1::Chunk) -> v1::NttStreamResponse {
        v1::NttStreamResponse { message: Some(Message::Chunk(chunk)) }
    }

    fn summary(
        &self,
        finished: FinishedJob<JobReport>,
        times: StreamTimes,
    ) -> v1::NttStreamResponse {
        let mut result = result(finished, times.receive);
        result.timing = response::with_send_time(result.timing, times.send);
        v1::NttStreamResponse { message: Some(Message::Result(result)) }
    }
}
