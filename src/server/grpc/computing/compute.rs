//! The Compute service: turns calls into jobs and their output into responses.

use std::{sync::Arc, time::Instant};

use tonic::{Request, Response, Status, Streaming};

use super::{
    estimate::charged_estimate,
    msm,
    ntt::{self, AdmittedNtt, RowsDelivery},
    run::AdmittedRun,
    single_step::GivenVector,
};
use crate::grpc::{
    calls::call::{self, CallContext},
    requests::{
        receive::{self, PieceContent, UploadPiece},
        streamed_body,
        streamed_uploads::{FoundVector, StreamedUploads},
    },
    responses::{response, response_queue::ResponseStream},
    state::ServerState,
};
use crate::{
    buffer::UploadBuffer,
    error::{Error, FieldProblem},
    jobs::InputPayload,
    store::UploadUseGuard,
    wire::{
        decode::{self, UploadId, required},
        v1::{
            self, compute_server::Compute, msm_request::Scalars, msm_stream_request,
            ntt_request::Input, ntt_response::Output, ntt_stream_request, run_request,
        },
    },
};

pub struct ComputeService {
    pub state: Arc<ServerState>,
}

enum UnarySource {
    Inline(v1::InlineVector),
    /// A vector or an upload in progress.
    Upload {
        id: UploadId,
        offset: Option<u64>,
    },
}

impl UnarySource {
    fn of_upload(id: &[u8], offset: Option<u64>) -> Result<Self, Error> {
        Ok(Self::Upload { id: decode::upload_id(id)?, offset })
    }
}

struct UnaryPayload {
    vector: GivenVector,
    payload: Arc<UploadBuffer>,
    admitted_bytes: u64,
    _upload_in_use: Option<UploadUseGuard>,
}

impl UnaryPayload {
    /// Finds the upload, or copies the scalars in the request.
    fn open(call: &CallContext, source: UnarySource) -> Result<Self, Error> {
        match source {
            UnarySource::Upload { id, offset } => {
                let upload = call.state.uploads.get(call.tenant.id, id)?;
                let vector = GivenVector { offset, ..GivenVector::whole(upload.vector()?.spec()) };
                call.audit_use("vector", &id.0);
                let (payload, in_use) = (upload.payload.clone(), Some(upload.begin_use()));
                Ok(Self { vector, payload, admitted_bytes: 0, _upload_in_use: in_use })
            }
            UnarySource::Inline(inline) => {
                let encoding = decode::scalar_encoding("inline.encoding", inline.encoding)?;
                let (len, width) = (inline.data.len(), encoding.width());
                let count = decode::element_count("inline.data", len, width)? as u64;
                let permit = call.admit(len as u64, 0)?;
                let vector = GivenVector { encoding, count, offset: None };
                let pool = &call.state.inputs;
                let payload = Arc::new(UploadBuffer::from_bytes(pool, &inline.data, permit)?);
                Ok(Self { vector, payload, admitted_bytes: len as u64, _upload_in_use: None })
            }
        }
    }

    fn memory(&self) -> InputPayload {
        InputPayload { payload: self.payload.clone(), copy: None }
    }
}

#[tonic::async_trait]
impl Compute for ComputeService {
    async fn msm(
        &self,
        request: Request<v1::MsmRequest>,
    ) -> Result<Response<v1::MsmResponse>, Status> {
        call::run(&self.state, "msm", request, async |call, request| {
            let source = match required("scalars", request.scalars)? {
                Scalars::Inline(inline) => UnarySource::Inline(inline),
                Scalars::UploadId(id) => UnarySource::of_upload(&id, None)?,
                Scalars::Stored(part) => {
                    UnarySource::of_upload(&part.upload_id, Some(part.offset))?
                }
            };
            let requested = decode::msm_spec(request.spec)?;
            let input = UnaryPayload::open(&call, source)?;
            let job = msm::admit(&call, requested, input.vector, input.admitted_bytes)?;
            let finished = job.submit(&call, input.memory()).await?;
            let receive_time = input.payload.receive_time_since(call.started);
            let result = msm::result(&call.recorder(), finished, receive_time);
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
            let scalars = FoundVector::find_for(&call, scalars, requested.verify)?;
            let (bytes, given) = (scalars.unadmitted_bytes(&call)?, scalars.spec());
            let job = msm::admit(&call, requested, GivenVector::whole(given), bytes)?;
            let mut input = StreamedUploads::only(&call, scalars)?;
            let guards = input.begin_streams()?;
            let ticket = job.submit(&call, input.payload(0));
            let piece_of = |message: v1::MsmStreamRequest| {
                UploadPiece::of_only_upload(match message.message {
                    Some(Message::Chunk(chunk)) => Some(PieceContent::Chunk(chunk)),
                    Some(Message::Written(range)) => Some(PieceContent::Written(range)),
                    _ => None,
                })
            };
            let pieces = receive::receive_pieces(&call, stream, guards, piece_of);
            let finished = receive::receive_during_job(pieces, ticket).await;
            input.end(finished.as_ref().err());
            let receive_time = input.receive_time_since(call.started);
            let result = msm::result(&call.recorder(), finished?, receive_time);
            Ok(v1::MsmStreamResponse { result: Some(result) })
        })
        .await
    }

    async fn ntt(
        &self,
        request: Request<v1::NttRequest>,
    ) -> Result<Response<v1::NttResponse>, Status> {
        call::run(&self.state, "ntt", request, async |call, request| {
            let source = match required("input", request.input)? {
                Input::Inline(inline) => UnarySource::Inline(inline),
                Input::UploadId(id) => UnarySource::of_upload(&id, None)?,
                Input::Stored(part) => UnarySource::of_upload(&part.upload_id, Some(part.offset))?,
            };
            let spec = decode::ntt_spec(request.spec)?;
            let input = UnaryPayload::open(&call, source)?;
            let delivery = if request.keep { RowsDelivery::Kept } else { RowsDelivery::Message };
            let admitted =
                AdmittedNtt::admit(&call, spec, input.vector, input.admitted_bytes, delivery)?;
            let max = call.state.settings.message_payload_bytes_max;
            if !request.keep && admitted.rows.len() > max {
                return Err(Error::field("keep", FieldProblem::TooLarge { max }).into());
            }
            let AdmittedNtt { job, encoding, rows, .. } = admitted;
            let finished = job.submit(&call, input.memory()).await?;
            let output_ready = Instant::now();
            let receive_time = input.payload.receive_time_since(call.started);
            let mut result = ntt::result(&call.recorder(), finished, receive_time);
            let output = if request.keep {
                Output::Kept(ntt::store_rows(&call, rows, encoding)?)
            } else {
                let data = rows.bytes(0, rows.len() as usize);
                let encoding = response::scalar_encoding(encoding) as i32;
                Output::Rows(v1::InlineVector { encoding, data })
            };
            result.timing = response::with_send_time(result.timing, output_ready.elapsed());
            Ok(v1::NttResponse { result: Some(result), output: Some(output) })
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
            let spec = decode::ntt_spec(header.spec)?;
            let input = decode::streamed_vector("header.input", header.input, header.region_input)?;
            let input = FoundVector::find_for(&call, input, spec.verify)?;
            let bytes = input.unadmitted_bytes(&call)?;
            let output = ntt::find_output(&call, &spec, header.region_output, &input)?;
            let given = GivenVector::whole(input.spec());
            let delivery = output.map_or(RowsDelivery::Chunks, RowsDelivery::Region);
            let job = AdmittedNtt::admit(&call, spec, given, bytes, delivery)?;
            let input = StreamedUploads::only(&call, input)?;
            let piece_of = |message: v1::NttStreamRequest| {
                UploadPiece::of_only_upload(match message.message {
                    Some(Message::Chunk(chunk)) => Some(PieceContent::Chunk(chunk)),
                    Some(Message::Written(range)) => Some(PieceContent::Written(range)),
                    _ => None,
                })
            };
            let guards = input.begin_streams()?;
            let pieces = receive::receive_pieces(&call, stream, guards, piece_of);
            ntt::stream_rows(&call, job, input).send_after(pieces).await
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
            let run = AdmittedRun::admit(&call, decode::run_spec(header)?)?;
            let (uploads, piece_of) = (run.begin_streams()?, run.piece_reader());
            let pieces = receive::receive_pieces(&call, stream, uploads, piece_of);
            run.submit(&call).send_after(pieces).await
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
