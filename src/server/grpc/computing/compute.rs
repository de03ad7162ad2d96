//! The Compute service: turns calls into jobs and their output into responses.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tonic::{Request, Response, Status, Streaming};

use super::{
    estimate::charged_estimate,
    found_call::FoundCall,
    run::{AdmittedRun, SubmittedRun},
    run_outputs::KeptOutputs,
    single_step::{RowsDelivery, StreamedRows, find_msm, find_ntt, msm_result, ntt_result},
};
use crate::grpc::{
    calls::{
        call::{self, CallContext},
        status::CallError,
    },
    requests::{
        receive::{self, PieceContent, UploadPiece},
        streamed_body,
    },
    responses::{
        response,
        response_queue::ResponseStream,
        result_stream::{ResultStream, SentVector},
    },
    state::ServerState,
};
use crate::{
    error::{Error, FieldProblem},
    jobs::{FinishedJob, ProgramOutput},
    wire::{
        decode::{self, InputSource},
        v1::{
            self, compute_server::Compute, msm_stream_request, ntt_response::Output,
            ntt_stream_request, run_request,
        },
    },
};

pub struct ComputeService {
    pub state: Arc<ServerState>,
}

#[tonic::async_trait]
impl Compute for ComputeService {
    async fn msm(
        &self,
        request: Request<v1::MsmRequest>,
    ) -> Result<Response<v1::MsmResponse>, Status> {
        call::run(&self.state, "msm", request, async |call, request| {
            let scalars = InputSource::of_msm(request.scalars)?;
            let found = find_msm(&call, decode::msm_spec(request.spec)?, scalars)?;
            let computed = compute_unary(&call, found).await?;
            let result = msm_result(&call.recorder(), computed.finished, computed.receive_time);
            Ok(v1::MsmResponse { result: Some(result) })
        })
        .await
    }

    async fn msm_stream(
        &self,
        request: Request<Streaming<v1::MsmStreamRequest>>,
    ) -> Result<Response<v1::MsmStreamResponse>, Status> {
        use msm_stream_request::Message;
        let request = streamed_body::messages(request, &self.state.settings)?;
        call::run(&self.state, "msm_stream", request, async |call, mut stream| {
            let first = receive::first_message(&call, &mut stream).await?;
            let Some(Message::Header(header)) = first.and_then(|first| first.message) else {
                return Err(Error::field("header", FieldProblem::Missing).into());
            };
            let requested = decode::msm_spec(header.spec)?;
            let (scalars, in_region) = (header.scalars, header.region_scalars);
            let scalars = decode::streamed_vector("header.scalars", scalars, in_region)?;
            let found = find_msm(&call, requested, InputSource::Streamed(scalars))?;
            let run = AdmittedRun::admit(&call, found)?;
            let guards = run.begin_streams()?;
            let SubmittedRun { ticket, mut uploads, .. } = run.submit(&call);
            let piece_of = |message: v1::MsmStreamRequest| {
                UploadPiece::of_only_upload(match message.message {
                    Some(Message::Chunk(chunk)) => Some(PieceContent::Chunk(chunk)),
                    Some(Message::Written(range)) => Some(PieceContent::Written(range)),
                    _ => None,
                })
            };
            let pieces = receive::receive_pieces(&call, stream, guards, piece_of);
            let finished = receive::receive_during_job(pieces, ticket).await;
            uploads.end(finished.as_ref().err());
            let receive_time = uploads.receive_time_since(call.started);
            let result = msm_result(&call.recorder(), finished?, receive_time);
            Ok(v1::MsmStreamResponse { result: Some(result) })
        })
        .await
    }

    async fn ntt(
        &self,
        request: Request<v1::NttRequest>,
    ) -> Result<Response<v1::NttResponse>, Status> {
        call::run(&self.state, "ntt", request, async |call, request| {
            let input = InputSource::of_ntt(request.input)?;
            let requested = decode::ntt_spec(request.spec)?;
            let encoding = response::scalar_encoding(requested.output_encoding) as i32;
            let delivery = if request.keep { RowsDelivery::Kept } else { RowsDelivery::Message };
            let found = find_ntt(&call, requested, input, delivery)?;
            let UnaryOutput { finished, receive_time, sent, kept } =
                compute_unary(&call, found).await?;
            let output_ready = Instant::now();
            let mut result = ntt_result(&call.recorder(), finished, receive_time);
            let output = match kept {
                Some(kept) => {
                    let kept = kept.keep(&call.state, &call.origin())?;
                    kept.first().map(|vector| Output::Kept(response::vector_object(vector)))
                }
                None => sent.first().map(|SentVector { payload, .. }| {
                    let data = payload.bytes(0, payload.len() as usize);
                    Output::Rows(v1::InlineVector { encoding, data })
                }),
            };
            result.timing = response::with_send_time(result.timing, output_ready.elapsed());
            Ok(v1::NttResponse { result: Some(result), output })
        })
        .await
    }

    type NttStreamStream = ResponseStream<v1::NttStreamResponse>;

    async fn ntt_stream(
        &self,
        request: Request<Streaming<v1::NttStreamRequest>>,
    ) -> Result<Response<Self::NttStreamStream>, Status> {
        use ntt_stream_request::Message;
        let request = streamed_body::messages(request, &self.state.settings)?;
        call::run(&self.state, "ntt_stream", request, async |call, mut stream| {
            let first = receive::first_message(&call, &mut stream).await?;
            let Some(Message::Header(header)) = first.and_then(|first| first.message) else {
                return Err(Error::field("header", FieldProblem::Missing).into());
            };
            let requested = decode::ntt_spec(header.spec)?;
            let input = decode::streamed_vector("header.input", header.input, header.region_input)?;
            let delivery = header.region_output.map_or(RowsDelivery::Chunks, RowsDelivery::Region);
            let found = find_ntt(&call, requested, InputSource::Streamed(input), delivery)?;
            let run = AdmittedRun::admit(&call, found)?;
            let piece_of = |message: v1::NttStreamRequest| {
                UploadPiece::of_only_upload(match message.message {
                    Some(Message::Chunk(chunk)) => Some(PieceContent::Chunk(chunk)),
                    Some(Message::Written(range)) => Some(PieceContent::Written(range)),
                    _ => None,
                })
            };
            let guards = run.begin_streams()?;
            let pieces = receive::receive_pieces(&call, stream, guards, piece_of);
            let SubmittedRun { ticket, uploads, verify, sent, .. } = run.submit(&call);
            let rows = StreamedRows(call.recorder());
            ResultStream::new(&call, rows, verify, sent, uploads, ticket).send_after(pieces).await
        })
        .await
    }

    type RunStream = ResponseStream<v1::RunResponse>;

    async fn run(
        &self,
        request: Request<Streaming<v1::RunRequest>>,
    ) -> Result<Response<Self::RunStream>, Status> {
        let request = streamed_body::messages(request, &self.state.settings)?;
        call::run(&self.state, "run", request, async |call, mut stream| {
            use run_request::Message;
            let first = receive::first_message(&call, &mut stream).await?;
            let Some(Message::Header(header)) = first.and_then(|first| first.message) else {
                return Err(Error::field("header", FieldProblem::Missing).into());
            };
            let spec = decode::run_spec(header)?;
            if !spec.has_free_ids() {
                return Err(Error::UploadConflict.into());
            }
            let found = FoundCall::of_run(&call, spec)?;
            let run = AdmittedRun::admit(&call, found)?;
            let (uploads, piece_of) = (run.begin_streams()?, run.piece_reader());
            let pieces = receive::receive_pieces(&call, stream, uploads, piece_of);
            run.submit(&call).into_response(&call).send_after(pieces).await
        })
        .await
    }

    async fn estimate(
        &self,
        request: Request<v1::EstimateRequest>,
    ) -> Result<Response<v1::EstimateResponse>, Status> {
        call::run(&self.state, "estimate", request, async |call, request| {
            Ok(charged_estimate(&call, decode::estimate_spec(request)?)?)
        })
        .await
    }
}

/// What a call without streams computed.
struct UnaryOutput {
    finished: FinishedJob<ProgramOutput>,
    /// Time from the start of the call to the last byte of its inputs.
    receive_time: Duration,
    sent: Vec<SentVector>,
    kept: Option<KeptOutputs>,
}

async fn compute_unary(call: &CallContext, found: FoundCall) -> Result<UnaryOutput, CallError> {
    let run = AdmittedRun::admit(call, found)?;
    let inputs = run.payloads();
    let SubmittedRun { ticket, sent, kept, in_use, .. } = run.submit(call);
    let finished = ticket.await?;
    let receive_times = inputs.iter().map(|payload| payload.receive_time_since(call.started));
    let receive_time = receive_times.max().unwrap_or_default();
    drop(in_use);
    Ok(UnaryOutput { finished, receive_time, sent, kept })
}
