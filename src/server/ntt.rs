//! NTT calls: turns a spec into a job and its rows into responses.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

use super::{
    answer::{self, micros},
    call::Call,
    observe,
};
use crate::{
    buffer::Arrival,
    curve::scalars::ScalarEncoding,
    engine::Executor,
    error::{Error, Limit, Problem, Result},
    jobs::{Admitted, NttCheck, NttJob, NttOutput, NttWork, Permit, Spent, check_count},
    wire::{
        decode::{NttSpec, UploadId, VectorUpload, Verify},
        v1,
    },
};

/// An admitted NTT.
pub struct NttCall {
    job: NttJob,
    permit: Permit,
    /// Encoding of the result.
    pub output_encoding: ScalarEncoding,
    /// Bytes of the result.
    pub result_bytes: u64,
    rows: Arc<Arrival>,
}

/// The output of a job, and its timing.
pub struct NttDone {
    /// The encoded rows, concatenated. Holds the permit for their bytes.
    pub rows: Arc<Arrival>,
    verify: Duration,
    executor: Executor,
    spent: Spent,
    lg_n: u32,
    check: NttCheck,
}

impl NttCall {
    /// Checks the lengths and admits the job. `payload_bytes` are those admitted separately for the
    /// input.
    ///
    /// Errors: `Invalid`, `Exhausted`, `Draining`.
    pub fn admit(
        call: &Call,
        spec: NttSpec,
        vector: &VectorUpload,
        payload_bytes: u64,
    ) -> Result<Self> {
        if !vector.encoding.is_full() {
            return Err(Error::field("encoding", Problem::OutOfRange));
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
                Verify::None => NttCheck::None,
                Verify::Full => NttCheck::Full,
                Verify::Probabilistic => NttCheck::RandomPoint,
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
        let (output_encoding, result) = (job.output_encoding, job.result(result_permit)?);
        Ok(Self { job, permit, output_encoding, result_bytes, rows: result })
    }

    /// The buffer that receives the rows.
    pub fn rows(&self) -> &Arc<Arrival> {
        &self.rows
    }

    /// How the rows are checked.
    pub fn check(&self) -> NttCheck {
        self.job.check
    }

    /// Queues the job at once. The future waits for the job; dropping it cancels the job.
    pub fn submit(
        self,
        call: &Call,
        arrival: Arc<Arrival>,
    ) -> impl Future<Output = Result<NttDone>> + use<> {
        let Self { job, permit, rows, .. } = self;
        let (lg_n, check, host) = (job.plan.lg_n, job.check, call.state.compute.clone());
        let ticket = call.state.scheduler.submit(call.control(), |wake| Admitted {
            work: NttWork::new(host, job, arrival, rows.clone(), wake),
            permit,
        });
        async move {
            let (NttOutput { verify, executor }, spent) = ticket.await?;
            Ok(NttDone { rows, verify, executor, spent, lg_n, check })
        }
    }
}

/// The wire's summary of a result. `waited` is the time that the input took to arrive.
pub fn result(done: &NttDone, waited: Duration) -> v1::NttResult {
    let verified = match done.check {
        NttCheck::None => v1::Verify::None,
        NttCheck::Full => v1::Verify::Full,
        NttCheck::RandomPoint => v1::Verify::Probabilistic,
    };
    let execution = answer::execution(done.executor.clone(), verified);
    let timing = v1::Timing {
        receive_us: micros(waited),
        queue_us: micros(done.spent.queue),
        compute_us: micros(done.spent.run.saturating_sub(done.verify)),
        verify_us: micros(done.verify),
        send_us: 0,
    };
    observe::job("ntt", done.lg_n, &timing, &execution);
    v1::NttResult { timing: Some(timing), execution: Some(execution) }
}

/// Stores the rows as a vector under a new random id.
///
/// Errors: `Exhausted`; `Internal` if the system's random generator fails.
pub fn keep(call: &Call, rows: Arc<Arrival>, encoding: ScalarEncoding) -> Result<v1::Object> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|_| Error::Internal("no random bytes".into()))?;
    let count = rows.len() / encoding.width() as u64;
    let vector = VectorUpload { id: UploadId(id), encoding, count, streams: 1 };
    call.state.uploads.insert(vector.clone(), rows)?;
    Ok(answer::vector_object(&vector))
}

/// Bytes `start..start + len` of a result, for sending.
pub fn piece(rows: &Arrival, start: u64, len: usize) -> Bytes {
    answer::secret(rows.copy(start, len))
}
