//! NTT calls: turns a spec into a job and its rows into responses.

use std::{sync::Arc, time::Duration};

use super::{call::CallContext, call_record, response};
use crate::{
    buffer::UploadBuffer,
    curve::scalars::ScalarEncoding,
    error::{Error, FieldProblem, Limit, Result},
    jobs::{AdmissionPermit, FinishedJob, JobReport, JobTicket, NttJob, NttWork, check_count},
    wire::{
        decode::{NttSpec, UploadId, VectorUploadHeader},
        v1,
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
        check_count("input", vector.count, spec.rows, spec.row_length)?;
        let job = NttJob {
            plan: spec.plan,
            batch: spec.rows,
            row_length: spec.row_length,
            input_encoding: vector.encoding,
            reduce: spec.reduce,
            output_encoding: spec.output_encoding,
            verify: spec.verify,
        };
        // A size that overflows exceeds any budget.
        let never = Error::Exhausted { limit: Limit::BytesInFlight, retry_after: None };
        let result_bytes = job.result_bytes().ok_or(never.clone())?;
        let scratch_bytes = job.scratch_bytes(call.state.compute.engine.as_ref()).ok_or(never)?;
        call.check_fits(scratch_bytes.saturating_add(result_bytes).saturating_add(payload_bytes))?;
        let result_permit = call.admit(result_bytes, 0)?;
        let permit = call.admit(scratch_bytes, 1)?;
        let rows = job.result_buffer(&call.state.payloads, result_permit)?;
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
    let (timing, execution) = call_record::job("ntt", finished, receive_time);
    v1::NttResult { timing, execution }
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
