//! The Compute service: turns calls into jobs and their output into responses.

use std::{sync::Arc, time::Instant};

use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::{
    ServerState,
    call::CallContext,
    msm::{self, AdmittedMsm},
    ntt::{self, AdmittedNtt},
    ntt_stream::NttStreaming,
    receive::{self, StreamedUpload},
    response,
};
use crate::{
    buffer::UploadBuffer,
    error::{Error, FieldProblem},
    store::UploadHeader,
    wire::{
        decode::{self, required},
        v1::{self, compute_server::Compute},
    },
};

/// Implements the Compute service.
pub struct ComputeService {
    /// The server's shared state.
    pub state: Arc<ServerState>,
}

/// The scalars of a unary call.
enum UnaryPayload {
    /// In the request.
    Inline(v1::InlineVector),
    /// A vector, or an upload in progress.
    Upload(decode::UploadId),
}

/// The payload of a unary call: an upload, or a copy of the scalars in the request.
fn unary_payload(
    call: &CallContext,
    scalars: UnaryPayload,
) -> Result<
    (decode::VectorUploadHeader, Arc<UploadBuffer>, Option<crate::store::UploadUseGuard>),
    Error,
> {
    match scalars {
        UnaryPayload::Upload(id) => {
            let upload = call.state.uploads.get(id)?;
            let UploadHeader::Vector(vector) = upload.header.clone() else {
                let (held, needed) = ("an unfinished upload of bases".into(), "a vector".into());
                return Err(Error::Mismatch { held, needed });
            };
            Ok((vector, upload.payload.clone(), Some(upload.begin_use())))
        }
        UnaryPayload::Inline(inline) => {
            let encoding = decode::scalar_encoding("inline.encoding", inline.encoding)?;
            let count =
                decode::element_count("inline.data", inline.data.len(), encoding.width())? as u64;
            let held = call.admit(inline.data.len() as u64, 0)?;
            let id = decode::UploadId([0; 16]);
            let vector = decode::VectorUploadHeader { id, encoding, count, streams: 1 };
            Ok((vector, Arc::new(UploadBuffer::from_bytes(&inline.data, held)), None))
        }
    }
}

#[tonic::async_trait]
impl Compute for ComputeService {
    async fn msm(
        &self,
        request: Request<v1::MsmRequest>,
    ) -> Result<Response<v1::MsmResponse>, Status> {
        let call = CallContext::new(&self.state, &request)?;
        let request = request.into_inner();
        call.run("msm", async {
            let scalars = match required("scalars", request.scalars)? {
                v1::msm_request::Scalars::Inline(inline) => UnaryPayload::Inline(inline),
                v1::msm_request::Scalars::UploadId(id) => {
                    UnaryPayload::Upload(decode::upload_id(&id)?)
                }
            };
            let spec = decode::msm_spec(request.spec)?;
            let (vector, arrival, used) = unary_payload(&call, scalars)?;
            let own_bytes = if used.is_some() { 0 } else { arrival.len() };
            let job = AdmittedMsm::admit(&call, spec, &vector, own_bytes)?;
            let result = job.submit(&call, arrival.clone()).await?;
            Ok(v1::MsmResponse {
                result: Some(msm::result(result, call.time_to_receive(&arrival))),
            })
        })
        .await
    }

    async fn msm_stream(
        &self,
        request: Request<Streaming<v1::MsmStreamRequest>>,
    ) -> Result<Response<v1::MsmStreamResponse>, Status> {
        use v1::msm_stream_request::Message;
        let call = CallContext::new(&self.state, &request)?;
        let mut stream = request.into_inner();
        call.run("msm_stream", async {
            let idle = self.state.settings.idle_timeout;
            let first =
                receive::next_message(&mut stream, idle).await?.and_then(|first| first.message);
            let Some(Message::Header(header)) = first else {
                return Err(Error::field("header", FieldProblem::Missing).into());
            };
            let spec = decode::msm_spec(header.spec)?;
            let vector = decode::vector_upload(required("header.scalars", header.scalars)?)?;
            let job =
                AdmittedMsm::admit(&call, spec, &vector, call.unadmitted_payload_bytes(&vector)?)?;
            let mut input = StreamedUpload::open(&call, vector)?;
            let upload = input.upload().clone();
            let ticket = job.submit(&call, upload.payload.clone());
            let chunks =
                receive::receive_chunks(
                    stream,
                    upload.begin_stream(),
                    idle,
                    |message| match message.message {
                        Some(Message::Chunk(chunk)) => Some(chunk),
                        _ => None,
                    },
                );
            let result = receive::receive_during_job(chunks, ticket).await;
            input.end(result.as_ref().err());
            let result = msm::result(result?, call.time_to_receive(&upload.payload));
            Ok(v1::MsmStreamResponse { result: Some(result) })
        })
        .await
    }

    async fn ntt(
        &self,
        request: Request<v1::NttRequest>,
    ) -> Result<Response<v1::NttResponse>, Status> {
        let call = CallContext::new(&self.state, &request)?;
        let request = request.into_inner();
        call.run("ntt", async {
            let input = match required("input", request.input)? {
                v1::ntt_request::Input::Inline(inline) => UnaryPayload::Inline(inline),
                v1::ntt_request::Input::UploadId(id) => {
                    UnaryPayload::Upload(decode::upload_id(&id)?)
                }
            };
            let spec = decode::ntt_spec(request.spec)?;
            let (vector, arrival, used) = unary_payload(&call, input)?;
            let own_bytes = if used.is_some() { 0 } else { arrival.len() };
            let job = AdmittedNtt::admit(&call, spec, &vector, own_bytes)?;
            let max = self.state.settings.message_payload_bytes_max;
            if !request.keep && job.result_bytes > max {
                return Err(Error::field("keep", FieldProblem::TooLarge { max }).into());
            }
            let encoding = job.output_encoding;
            let output = job.submit(&call, arrival.clone()).await?;
            let begun = Instant::now();
            let result = ntt::result(&output, call.time_to_receive(&arrival));
            let output = if request.keep {
                v1::ntt_response::Output::Kept(ntt::store_rows(&call, output.rows, encoding)?)
            } else {
                let data = ntt::row_chunk(&output.rows, 0, output.rows.len() as usize);
                let encoding = response::scalar_encoding(encoding) as i32;
                v1::ntt_response::Output::Rows(v1::InlineVector { encoding, data })
            };
            let result = Some(response::with_send_time(result, begun.elapsed()));
            Ok(v1::NttResponse { result, output: Some(output) })
        })
        .await
    }

    type NttStreamStream = ReceiverStream<Result<v1::NttStreamResponse, Status>>;

    async fn ntt_stream(
        &self,
        request: Request<Streaming<v1::NttStreamRequest>>,
    ) -> Result<Response<Self::NttStreamStream>, Status> {
        use v1::ntt_stream_request::Message;
        let call = CallContext::new(&self.state, &request)?;
        let mut stream = request.into_inner();
        call.run("ntt_stream", async {
            let idle = self.state.settings.idle_timeout;
            let first =
                receive::next_message(&mut stream, idle).await?.and_then(|first| first.message);
            let Some(Message::Header(header)) = first else {
                return Err(Error::field("header", FieldProblem::Missing).into());
            };
            let spec = decode::ntt_spec(header.spec)?;
            let vector = decode::vector_upload(required("header.input", header.input)?)?;
            let job =
                AdmittedNtt::admit(&call, spec, &vector, call.unadmitted_payload_bytes(&vector)?)?;
            let input = StreamedUpload::open(&call, vector)?;
            let upload = input.upload().clone();
            let mut following = NttStreaming::new(&call, job, input);
            let chunks =
                receive::receive_chunks(
                    stream,
                    upload.begin_stream(),
                    idle,
                    |message| match message.message {
                        Some(Message::Chunk(chunk)) => Some(chunk),
                        _ => None,
                    },
                );
            let begun = receive::receive_during_job(chunks, following.wait_for_first_rows()).await;
            if let Err(error) = begun {
                following.fail(&error);
                return Err(error);
            }
            Ok(following.send())
        })
        .await
    }
}
