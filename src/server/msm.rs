//! MSM calls: turns a spec into a job and its output into a result.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    call::CallContext,
    call_record,
    response::{self, as_micros_u64},
};
use crate::{
    buffer::UploadBuffer,
    error::{Error, FieldProblem, Result},
    jobs::{
        AdmissionPermit, AdmittedJob, JobBases, JobTiming, MsmCheck, MsmJob, MsmOutput, MsmWork,
        check_count,
    },
    wire::{
        decode::{BasesRef, MsmSpec, VectorUploadHeader, VerifyMode},
        v1,
    },
};

/// An admitted MSM.
pub struct AdmittedMsm {
    job: MsmJob,
    permit: AdmissionPermit,
}

/// The output of a job, and its timing.
pub struct FinishedMsm {
    output: MsmOutput,
    spent: JobTiming,
    lg_n: u32,
    check: MsmCheck,
}

impl AdmittedMsm {
    /// Finds the bases, checks the lengths and admits the job. `payload_bytes` are those admitted
    /// separately for the scalars.
    ///
    /// Errors: `NotFound`, `Mismatch`, `Invalid`, `Exhausted`, `Draining`.
    pub fn admit(
        call: &CallContext,
        spec: MsmSpec,
        vector: &VectorUploadHeader,
        payload_bytes: u64,
    ) -> Result<Self> {
        let bases = match spec.bases {
            BasesRef::Stored(id, offset, length) => {
                JobBases::Checked(call.state.bases.points(id, spec.group, offset, length)?)
            }
            BasesRef::Inline(encoding, data, count) => {
                JobBases::Inline(spec.group, encoding, data, count)
            }
        };
        check_count("scalars", vector.count, spec.batch, bases.len() as u64)?;
        let job = MsmJob {
            bases,
            batch: spec.batch,
            encoding: vector.encoding,
            reduce: spec.reduce,
            result_encoding: spec.result_encoding,
            check: match spec.verify {
                VerifyMode::None => MsmCheck::None,
                VerifyMode::Full => MsmCheck::Full,
                VerifyMode::Probabilistic => MsmCheck::Combination,
            },
        };
        let max = call.state.settings.message_payload_bytes_max;
        let sum_bytes = job.result_encoding.point_bytes(spec.group) as u64;
        if job.batch as u64 * sum_bytes > max {
            let max = max / sum_bytes;
            return Err(Error::field("spec.batch", FieldProblem::TooLarge { max }));
        }
        let scratch_bytes = job.scratch_bytes(&call.state.compute);
        call.check_fits(scratch_bytes.saturating_add(payload_bytes))?;
        let permit = call.admit(scratch_bytes, 1)?;
        Ok(Self { job, permit })
    }

    /// Queues the job at once. The future waits for the job; dropping it cancels the job.
    pub fn submit(
        self,
        call: &CallContext,
        arrival: Arc<UploadBuffer>,
    ) -> impl Future<Output = Result<FinishedMsm>> + use<> {
        let Self { job, permit } = self;
        let lg_n = job.bases.len().checked_ilog2().unwrap_or(0);
        let (check, host) = (job.check, call.state.compute.clone());
        let ticket = call.state.scheduler.submit(call.control(), |wake| AdmittedJob {
            work: MsmWork::new(host, job, arrival, wake),
            permit,
        });
        async move {
            let (output, spent) = ticket.await?;
            Ok(FinishedMsm { output, spent, lg_n, check })
        }
    }
}

/// The wire's result. `waited` is the time that the scalars took to arrive.
pub fn result(done: FinishedMsm, waited: Duration) -> v1::MsmResult {
    let begun = Instant::now();
    let FinishedMsm { output, spent, lg_n, check } = done;
    let verified = match check {
        MsmCheck::None => v1::Verify::None,
        MsmCheck::Full => v1::Verify::Full,
        MsmCheck::Combination => v1::Verify::Probabilistic,
    };
    let execution = response::execution(output.executor, verified);
    let points = output.points.into();
    let timing = v1::Timing {
        receive_us: as_micros_u64(waited),
        queue_us: as_micros_u64(spent.queue),
        compute_us: as_micros_u64(spent.run.saturating_sub(output.verify_time)),
        verify_us: as_micros_u64(output.verify_time),
        send_us: as_micros_u64(begun.elapsed()),
    };
    call_record::job("msm", lg_n, &timing, &execution);
    v1::MsmResult { points, timing: Some(timing), execution: Some(execution) }
}
