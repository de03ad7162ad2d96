//! MSM calls: turns a spec into a job and its output into a result.

use std::{sync::Arc, time::Duration};

use super::{call::CallContext, call_record, response};
use crate::{
    buffer::UploadBuffer,
    error::{Error, FieldProblem, Result},
    jobs::{
        AdmissionPermit, AdmittedJob, FinishedJob, JobBases, MsmJob, MsmOutput, MsmWork,
        check_count,
    },
    verify::VerifyMode,
    wire::{
        decode::{BasesRef, MsmSpec, VectorUploadHeader},
        v1,
    },
};

pub struct AdmittedMsm {
    job: MsmJob,
    permit: AdmissionPermit,
}

pub struct FinishedMsm {
    finished: FinishedJob<MsmOutput>,
    lg_n: u32,
    verify: VerifyMode,
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
            BasesRef::Stored { id, offset, length } => {
                JobBases::Checked(call.state.bases.points(id, spec.group, offset, length)?)
            }
            BasesRef::Inline { encoding, data, count } => {
                JobBases::Inline { group: spec.group, encoding, data, count }
            }
        };
        check_count("scalars", vector.count, spec.batch, bases.count() as u64)?;
        let job = MsmJob {
            bases,
            batch: spec.batch,
            encoding: vector.encoding,
            reduce: spec.reduce,
            result_encoding: spec.result_encoding,
            verify: spec.verify,
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
        payload: Arc<UploadBuffer>,
    ) -> impl Future<Output = Result<FinishedMsm>> + use<> {
        let Self { job, permit } = self;
        let lg_n = job.bases.count().checked_ilog2().unwrap_or(0);
        let (verify, host) = (job.verify, call.state.compute.clone());
        let ticket = call.state.scheduler.submit(call.control(), |wake| AdmittedJob {
            work: MsmWork::new(host, job, payload, wake),
            _permit: permit,
        });
        async move { Ok(FinishedMsm { finished: ticket.await?, lg_n, verify }) }
    }
}

impl FinishedMsm {
    /// Records the job and returns the wire's result. The scalars arrived within `receive_time`.
    pub fn into_result(self, receive_time: Duration) -> v1::MsmResult {
        let FinishedJob { output, timing } = self.finished;
        let execution = response::execution(output.executor, self.verify);
        let timing = response::timing(receive_time, timing, output.verify_time);
        call_record::job("msm", self.lg_n, &timing, &execution);
        let points = output.points.into();
        v1::MsmResult { points, timing: Some(timing), execution: Some(execution) }
    }
}
