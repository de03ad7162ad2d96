//! NTT calls: turns a spec into a job and its rows into responses.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

use super::{
    call::CallContext,
    call_record,
    response::{self, as_micros_u64},
};
use crate::{
    buffer::UploadBuffer,
    curve::scalars::ScalarEncoding,
    engine::ExecutedBy,
    error::{Error, FieldProblem, Limit, Result},
    jobs::{
        AdmissionPermit, AdmittedJob, JobTiming, NttCheck, NttJob, NttOutput, NttWork, check_count,
    },
    wire::{
        decode::{NttSpec, UploadId, VectorUploadHeader, VerifyMode},
        v1,
    },
};

/// An admitted NTT.
pub struct AdmittedNtt {
    job: NttJob,
    permit: AdmissionPermit,
    /// Encoding of the result.
    pub output_encoding: ScalarEncoding,
    /// Bytes of the result.
    pub result_bytes: u64,
    rows: Arc<UploadBuffer>,
}

/// The output of a job, and its timing.
pub struct FinishedNtt {
    /// The encoded rows, concatenated. Holds the permit for their bytes.
    pub rows: Arc<UploadBuffer>,
    verify: Duration,
    executor: ExecutedBy,
    spent: JobTiming,
    lg_n: u32,
    check: NttCheck,
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
            check: match spec.verify {
                VerifyMode::None => NttCheck::None,
                VerifyMode::Full => NttCheck::Full,
                VerifyMode::Probabilistic => NttCheck::RandomPoint,
            },
        };
        // A size that overflows exceeds any budget.
        let never = Error::Exhausted { limit: Limit::BytesInFlight, retry_after: None };
        let result_bytes = job.result_bytes().ok_or(never.clone())?;
        let scratch_bytes = job.scratch_bytes(call.state.compute.engine.as_ref()).ok_or(never)?;
        let all =
            [result_bytes, payload_bytes].iter().fold(scratch_bytes, |a, b| a.saturating_add(*b));
        call.check_fits(all)?;
        let result_permit = call.admit(result_bytes, 0)?;
        let permit = call.admit(scratch_bytes, 1)?;
        let (output_encoding, result) = (job.output_encoding, job.result_buffer(result_permit)?);
        Ok(Self { job, permit, output_encoding, result_bytes, rows: result })
    }

    /// The buffer that receives the rows.
    pub fn rows(&self) -> &Arc<UploadBuffer> {
        &self.rows
    }

    /// How the rows are checked.
    pub fn check(&self) -> NttCheck {
        self.job.check
    }

    /// Queues the job at once. The future waits for the job; dropping it cancels the job.
    pub fn submit(
        self,
        call: &CallContext,
        arrival: Arc<UploadBuffer>,
    ) -> impl Future<Output = Result<FinishedNtt>> + use<> {
        let Self { job, permit, rows, .. } = self;
        let (lg_n, check, host) = (job.plan.lg_n, job.check, call.state.compute.clone());
        let ticket = call.state.scheduler.submit(call.control(), |wake| AdmittedJob {
            work: NttWork::new(host, job, arrival, rows.clone(), wake),
            permit,
        });
        async move {
            let (NttOutput { verify, executor }, spent) = ticket.await?;
            Ok(FinishedNtt { rows, verify, executor, spent, lg_n, check })
        }
    }
}

/// The wire's summary of a result. `waited` is the time that the input took to arrive.
pub fn result(done: &FinishedNtt, waited: Duration) -> v1::NttResult {
    let verified = match done.check {
        NttCheck::None => v1::Verify::None,
        NttCheck::Full => v1::Verify::Full,
        NttCheck::RandomPoint => v1::Verify::Probabilistic,
    };
    let execution = response::execution(done.executor.clone(), verified);
    let timing = v1::Timing {
        receive_us: as_micros_u64(waited),
        queue_us: as_micros_u64(done.spent.queue),
        compute_us: as_micros_u64(done.spent.run.saturating_sub(done.verify)),
        verify_us: as_micros_u64(done.verify),
        send_us: 0,
    };
    call_record::job("ntt", done.lg_n, &timing, &execution);
    v1::NttResult { timing: Some(timing), execution: Some(execution) }
}

/// Stores the rows as a vector under a new random id.
///
/// Errors: `Exhausted`; `Internal` if the system's random generator fails.
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

/// Bytes `start..start + len` of a result, for sending.
pub fn row_chunk(rows: &UploadBuffer, start: u64, len: usize) -> Bytes {
    response::zeroized_bytes(rows.copy(start, len))
}
