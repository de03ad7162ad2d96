//! MSM calls: turns a spec into a job and its output into a result.

use std::{sync::Arc, time::Duration};

use super::{call::CallContext, call_record, response};
use crate::{
    buffer::UploadBuffer,
    error::{Error, FieldProblem, Result},
    jobs::{
        AdmissionPermit, FinishedJob, JobBases, JobTicket, MsmJob, MsmOutput, MsmWork, check_count,
    },
    telemetry,
    wire::{
        decode::{BasesRef, RequestedMsm, VectorUploadHeader},
        v1,
    },
};

pub struct AdmittedMsm {
    job: MsmJob,
    permit: AdmissionPermit,
}

impl AdmittedMsm {
    /// Finds the bases, checks the lengths and admits the job. `payload_bytes` are those admitted
    /// separately for the scalars.
    ///
    /// Errors: `NotFound`, `Mismatch`, `Invalid`, `Exhausted`, `Draining`.
    pub fn admit(
        call: &CallContext,
        RequestedMsm { spec, bases }: RequestedMsm,
        vector: &VectorUploadHeader,
        payload_bytes: u64,
    ) -> Result<Self> {
        let bases = match bases {
            BasesRef::Stored { id, offset, length } => {
                JobBases::Checked(call.state.bases.points(id, spec.group, offset, length)?)
            }
            BasesRef::Inline(bases) => JobBases::Unchecked(bases),
        };
        check_count("scalars", vector.count, spec.batch, bases.count() as u64)?;
        let max = call.state.settings.message_payload_bytes_max;
        let sum_bytes = spec.result_encoding.point_bytes(spec.group) as u64;
        if spec.batch as u64 * sum_bytes > max {
            let max = max / sum_bytes;
            return Err(Error::field("spec.batch", FieldProblem::TooLarge { max }));
        }
        let job = MsmJob { spec, bases, scalar_encoding: vector.encoding };
        let scratch_bytes = job.scratch_bytes(&call.state.compute);
        call.check_fits(scratch_bytes.saturating_add(payload_bytes))?;
        let permit = call.admit(scratch_bytes, 1)?;
        Ok(Self { job, permit })
    }

    pub fn submit(self, call: &CallContext, payload: Arc<UploadBuffer>) -> JobTicket<MsmOutput> {
        let host = call.state.compute.clone();
        call.submit(self.permit, |waker| MsmWork::new(host, self.job, payload, waker))
    }
}

/// Records a job whose scalars arrived within `receive_time`.
pub fn result(finished: FinishedJob<MsmOutput>, receive_time: Duration) -> v1::MsmResult {
    let FinishedJob { output, mut timing } = finished;
    let MsmOutput { points, report, batch_jobs, computed_elsewhere } = output;
    timing.run += computed_elsewhere;
    telemetry::count_batched_job(batch_jobs);
    let finished = FinishedJob { output: report, timing };
    let timing = call_record::job("msm", &finished, receive_time);
    let execution = response::execution(finished.output);
    v1::MsmResult { points: points.into(), timing: Some(timing), execution: Some(execution) }
}
