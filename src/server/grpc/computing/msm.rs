//! MSM calls: turns a spec into a job and its output into a result.

use std::time::Duration;

use super::single_step::{GivenVector, SingleStepJob, SingleStepRun};
use crate::grpc::{
    calls::{call::CallContext, call_record::JobRecorder},
    responses::{response, transport_parts::bytes_of_message},
};
use crate::{
    error::{Error, FieldProblem, Result},
    jobs::{FinishedJob, JobBases, ProgramJobOutput, ProgramOutput, UncheckedBases},
    ops::single_msm,
    program::OutputKind,
    wire::{
        decode::{BasesRef, RequestedMsm},
        v1,
    },
};

/// Finds the bases, checks the lengths and admits the job. `payload_bytes` are those admitted
/// separately for the scalars.
///
/// Errors: `NotFound`, `Mismatch`, `Invalid`, `Exhausted`, `Draining`; `Step` if the modelled time
/// is too long.
pub fn admit(
    call: &CallContext,
    requested: RequestedMsm,
    scalars: GivenVector,
    payload_bytes: u64,
) -> Result<SingleStepJob> {
    let RequestedMsm { group, bases, batch, reduce, result_encoding, verify } = requested;
    let bases = match bases {
        BasesRef::Stored { id, offset, length } => {
            let bases = call.state.objects.points(call.tenant.id, id, group, offset, length)?;
            call.audit_use("bases", &id.0);
            JobBases::Checked(bases)
        }
        BasesRef::Inline { encoding, data, count } => {
            JobBases::Unchecked(UncheckedBases::new(group, encoding, &data, count))
        }
    };
    let n = bases.count();
    if !scalars.encoding.is_integer() && !scalars.encoding.is_full() {
        return Err(Error::field("encoding", FieldProblem::OtherEncoding));
    }
    let elements = scalars.rows("scalars", batch, n as u64)?;
    let max = call.state.settings.message_payload_bytes_max;
    let sum_bytes = result_encoding.point_bytes(group) as u64;
    if batch as u64 * sum_bytes > max {
        let max = max / sum_bytes;
        return Err(Error::field("spec.batch", FieldProblem::TooLarge { max }));
    }
    // Before the program is made, which refuses vectors that fit no memory with another error.
    call.check_fits(payload_bytes)?;
    let program = single_msm(group, batch, n)?;
    let mut single = SingleStepRun::new(call, program, elements, OutputKind::Points, verify)?;
    let working_bytes = single.run.plan().memory_bytes.saturating_add(bases.bytes());
    let response_bytes = bytes_of_message(batch as u64 * sum_bytes);
    call.check_fits(working_bytes.saturating_add(payload_bytes).saturating_add(response_bytes))?;
    let modelled = single.limit_time(call, bases.check_time(&call.state.compute))?;
    call.admit_response(response_bytes)?;
    let permit = call.admit_job(working_bytes, modelled)?;
    Ok(SingleStepJob {
        call: "msm",
        input_field: "scalars",
        run: single.run,
        elements,
        reduce,
        bases: vec![bases],
        output: ProgramJobOutput::Points(result_encoding),
        verify,
        row_length: n as u64,
        permit,
    })
}

/// Records a job whose scalars arrived within `receive_time`.
pub fn result(
    recorder: &JobRecorder,
    finished: FinishedJob<ProgramOutput>,
    receive_time: Duration,
) -> v1::MsmResult {
    let timing = recorder.record("msm", &finished, receive_time);
    let ProgramOutput { points, report, .. } = finished.output;
    let (points, execution) = (points.concat().into(), response::execution(report));
    v1::MsmResult { points, timing: Some(timing), execution: Some(execution) }
}
