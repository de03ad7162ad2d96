//! Calls of one step, MSM and NTT: turns their specs into calls of a program, and what was computed
//! into their responses.
//!
//! An NTT writes its result to payload memory, like an upload: a vector that stays on the server is
//! not copied, and memory is allocated as rows arrive.

use std::{sync::Arc, time::Duration};

use super::found_call::{CallKind, FoundCall, FoundInput};
use crate::grpc::{
    calls::{call::CallContext, call_record::JobRecorder},
    objects::regions::find_slice,
    responses::{
        response,
        result_stream::{StreamTimes, StreamedResult},
        transport_parts::{bytes_of_chunks, bytes_of_message},
    },
};
use crate::{
    curve::{NttPlan, scalars::ScalarEncoding},
    error::{Error, FieldProblem, Result},
    exec::start_run,
    field::FieldId,
    jobs::{ComputeHost, FinishedJob, JobBases, ProgramOutput, UncheckedBases},
    ops::{OperationProgram, SINGLE_STEP, single_msm, single_ntt},
    program::{InputSpec, OutputKind, OutputSpec},
    verify::Verification,
    wire::{
        decode::{
            BasesRef, InputSource, OutputDelivery, RegionVector, RequestedMsm, RequestedNtt,
            RunOutput, UploadId, region_place,
        },
        v1::{self, ntt_stream_response::Message},
    },
};

/// Where the rows of an NTT go.
pub enum RowsDelivery {
    /// Into the response, as one message.
    Message,
    /// Into the response, in chunks.
    Chunks,
    /// To a vector with a new random id.
    Kept,
    Region(v1::RegionPlace),
}

/// The number of elements of `rows` rows of `length` elements.
fn count_of(field: &'static str, rows: usize, length: u64) -> Result<u64> {
    let too_large = Error::field(field, FieldProblem::TooLarge { max: u64::MAX });
    (rows as u64).checked_mul(length).ok_or(too_large)
}

fn check_count(field: &'static str, input: &FoundInput, expected: u64) -> Result<()> {
    let got = input.spec.count;
    let wrong = Error::field(field, FieldProblem::Length { expected, got });
    if got == expected { Ok(()) } else { Err(wrong) }
}

fn found_call(
    kind: CallKind,
    program: OperationProgram,
    input: FoundInput,
    delivery: OutputDelivery,
    verify: Verification,
) -> FoundCall {
    FoundCall {
        kind,
        program: Arc::new(program),
        bases: Vec::new(),
        matrices: Vec::new(),
        inputs: vec![input],
        outputs: vec![RunOutput { value: SINGLE_STEP, delivery }],
        verify,
    }
}

/// Finds the bases and the scalars of an MSM, and checks their lengths.
///
/// Errors: `NotFound`, `Mismatch`, `Invalid`; `Exhausted` if the scalars fit in no empty budget.
pub fn find_msm(
    call: &CallContext,
    requested: RequestedMsm,
    scalars: InputSource,
) -> Result<FoundCall> {
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
    let count = count_of("scalars", batch, n as u64)?;
    let scalars = FoundInput::find(call, CallKind::Msm, scalars, count, reduce)?;
    let encoding = scalars.spec.encoding;
    if !encoding.is_integer() && !encoding.is_full() {
        return Err(Error::field("encoding", FieldProblem::OtherEncoding));
    }
    check_count("scalars", &scalars, count)?;
    let max = call.state.settings.message_payload_bytes_max;
    let sum_bytes = result_encoding.point_bytes(group) as u64;
    if batch as u64 * sum_bytes > max {
        let max = max / sum_bytes;
        return Err(Error::field("spec.batch", FieldProblem::TooLarge { max }));
    }
    // Before the program is made, which refuses vectors that fit no memory with another error.
    call.check_fits(scalars.unadmitted_bytes(call)?)?;
    let program = single_msm(group, batch, n)?;
    let delivery = OutputDelivery::Points { encoding: result_encoding, is_early: false };
    let found = found_call(CallKind::Msm, program, scalars, delivery, verify);
    Ok(FoundCall { bases: vec![bases], ..found })
}

/// Finds the rows of an NTT and the destination of its result, and checks their lengths.
///
/// Errors: `NotFound`, `Mismatch`, `LocalOnly`, `Invalid`; `Exhausted` if input and result fit in
/// no empty budget.
pub fn find_ntt(
    call: &CallContext,
    requested: RequestedNtt,
    input: InputSource,
    delivery: RowsDelivery,
) -> Result<FoundCall> {
    let RequestedNtt { field, plan, batch, row_length, reduce, output_encoding, verify } =
        requested;
    let kind = match delivery {
        RowsDelivery::Message => CallKind::NttInMessage,
        _ => CallKind::Ntt,
    };
    let count = count_of("input", batch, row_length)?;
    let input = FoundInput::find(call, kind, input, count, reduce)?;
    if input.spec.encoding.is_integer() {
        return Err(Error::field("encoding", FieldProblem::OutOfRange));
    }
    if !input.spec.encoding.holds(field) {
        return Err(Error::field("encoding", FieldProblem::OtherEncoding));
    }
    check_count("input", &input, count)?;
    let made = (batch as u64) << plan.lg_n;
    let encoding = output_encoding;
    let row_bytes = made * encoding.width() as u64;
    // Those of the response, too.
    let (delivery, result_bytes) = match delivery {
        RowsDelivery::Message => {
            let bytes = row_bytes.saturating_add(bytes_of_message(row_bytes));
            (OutputDelivery::Send(encoding), bytes)
        }
        RowsDelivery::Chunks => {
            let bytes = row_bytes.saturating_add(bytes_of_chunks(row_bytes));
            (OutputDelivery::Send(encoding), bytes)
        }
        RowsDelivery::Kept => {
            let mut id = [0; 16];
            getrandom::fill(&mut id).map_err(|_| Error::internal("no random bytes"))?;
            (OutputDelivery::Keep { id: UploadId(id), encoding }, row_bytes)
        }
        RowsDelivery::Region(place) => {
            let vector = RegionVector { place: region_place(place)?, encoding };
            let slice = find_slice(call, vector, made)?;
            if input.slice().is_some_and(|input| slice.overlaps(input)) {
                return Err(Error::field("region_output.offset", FieldProblem::Overlap));
            }
            (OutputDelivery::Region(vector), 0)
        }
    };
    // Before the program is made, which refuses vectors that fit no memory with another error.
    call.check_fits(result_bytes.saturating_add(input.unadmitted_bytes(call)?))?;
    let max = call.state.settings.message_payload_bytes_max;
    if kind == CallKind::NttInMessage && row_bytes > max {
        return Err(Error::field("keep", FieldProblem::TooLarge { max }));
    }
    let program = single_ntt(field, plan, batch, row_length)?;
    Ok(found_call(kind, program, input, delivery, verify))
}

/// Bytes that a forward NTT of one row of 2^lg_n elements takes, with its input and its result,
/// which is sent in chunks.
///
/// Errors: `Invalid` if the row is too long.
pub fn bytes_of_ntt(compute: &ComputeHost, lg_n: u32) -> Result<u64> {
    let (inverse, coset, input_reversed, output_reversed) = Default::default();
    let plan = NttPlan { lg_n, inverse, coset, input_reversed, output_reversed };
    let program = Arc::new(single_ntt(FieldId::Bls12381Fr, plan, 1, 1 << lg_n)?);
    let input = InputSpec::new(ScalarEncoding::Montgomery, 1 << lg_n);
    let output = OutputSpec { value: SINGLE_STEP, kind: OutputKind::Elements };
    let run = start_run(&*compute.executor, program, &[input], &[output], Verification::None)?;
    let (row_bytes, working_bytes) = (32_u64 << lg_n, run.plan().memory_bytes);
    Ok(working_bytes.saturating_add(2 * row_bytes).saturating_add(bytes_of_chunks(row_bytes)))
}

/// Records an MSM whose scalars arrived within `receive_time`.
pub fn msm_result(
    recorder: &JobRecorder,
    finished: FinishedJob<ProgramOutput>,
    receive_time: Duration,
) -> v1::MsmResult {
    let timing = recorder.record(CallKind::Msm.name(), &finished, receive_time);
    let ProgramOutput { points, report, .. } = finished.output;
    let points = points.concat().into();
    let execution = response::execution(report);
    v1::MsmResult { points, timing: Some(timing), execution: Some(execution) }
}

/// Records an NTT whose input arrived within `receive_time`.
pub fn ntt_result(
    recorder: &JobRecorder,
    finished: FinishedJob<ProgramOutput>,
    receive_time: Duration,
) -> v1::NttResult {
    let timing = recorder.record(CallKind::Ntt.name(), &finished, receive_time);
    let execution = response::execution(finished.output.report);
    v1::NttResult { timing: Some(timing), execution: Some(execution) }
}

/// The rows of an NTT, sent as they are computed. Those in a region are not sent.
pub struct StreamedRows(pub JobRecorder);

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
        let mut result = ntt_result(&self.0, finished, times.receive);
        result.timing = response::with_send_time(result.timing, times.send);
        v1::NttStreamResponse { message: Some(Message::Result(result)) }
    }
}
