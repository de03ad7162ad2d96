//! The Store service.

use std::sync::Arc;

use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::{ServerState, call::CallContext, import, read_object, receive, response};
use crate::{
    curve::Group,
    error::{Error, FieldProblem},
    store::{StoredBases, UploadHeader, UploadOutcome},
    wire::{
        decode::{self, required},
        v1::{self, store_server::Store},
    },
};

/// Most missing ranges in the answer of `Stat`.
const MISSING_MAX: usize = 1024;

/// Implements the Store service.
pub struct StoreService {
    /// The server's shared state.
    pub state: Arc<ServerState>,
}

impl StoreService {
    /// The stored bases of the same payload, if they make the upload unnecessary.
    fn stored_payload(&self, header: &UploadHeader) -> Option<Arc<StoredBases>> {
        let UploadHeader::Bases(wanted) = header else { return None };
        let held = self.state.bases.by_payload(&wanted.payload()?).ok()?;
        let same = held.points.group() == wanted.group
            && held.points.len() as u64 == wanted.count
            && (held.persisted || !wanted.persist);
        same.then_some(held)
    }
}

fn put_response(header: &UploadHeader, outcome: &UploadOutcome, existed: bool) -> v1::PutResponse {
    let object = match (outcome, header) {
        (UploadOutcome::Bases(bases), _) => Some(response::bases_object(bases)),
        (UploadOutcome::Vector, UploadHeader::Vector(vector)) => {
            Some(response::vector_object(vector))
        }
        (UploadOutcome::Vector, UploadHeader::Bases(_)) => None,
    };
    v1::PutResponse { object, existed }
}

#[tonic::async_trait]
impl Store for StoreService {
    async fn put(
        &self,
        request: Request<Streaming<v1::PutRequest>>,
    ) -> Result<Response<v1::PutResponse>, Status> {
        use v1::put_request::Message;
        let call = CallContext::new(&self.state, &request)?;
        let mut stream = request.into_inner();
        call.run("put", async {
            let idle = self.state.settings.idle_timeout;
            let first =
                receive::next_message(&mut stream, idle).await?.and_then(|first| first.message);
            let header = match first {
                Some(Message::Bases(bases)) => UploadHeader::Bases(decode::bases_upload(bases)?),
                Some(Message::Vector(vector)) => {
                    UploadHeader::Vector(decode::vector_upload(vector)?)
                }
                _ => return Err(Error::field("header", FieldProblem::Missing).into()),
            };
            if let Some(held) = self.stored_payload(&header) {
                return Ok(put_response(&header, &UploadOutcome::Bases(held), true));
            }
            let upload = import::open_upload(&call, &header)?;
            let existed = upload.payload.is_complete() && !upload.payload.is_empty();
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
            let outcome = receive::receive_during_job(chunks, upload.concluded()).await;
            let outcome = outcome.inspect_err(|failure| {
                receive::end_unless_resumable(&self.state.uploads, &upload, failure);
            })?;
            Ok(put_response(&header, &outcome, existed))
        })
        .await
    }

    type GetStream = ReceiverStream<Result<v1::GetResponse, Status>>;

    async fn get(
        &self,
        request: Request<v1::GetRequest>,
    ) -> Result<Response<Self::GetStream>, Status> {
        let call = CallContext::new(&self.state, &request)?;
        let request = request.into_inner();
        call.run("get", async {
            Ok(read_object::send(&call, read_object::resolve(&call, request)?))
        })
        .await
    }

    async fn stat(
        &self,
        request: Request<v1::StatRequest>,
    ) -> Result<Response<v1::StatResponse>, Status> {
        use v1::{stat_request::Id, stat_response::Status as Found};
        let call = CallContext::new(&self.state, &request)?;
        let request = request.into_inner();
        call.run("stat", async {
            let bases = match required("id", request.id)? {
                Id::ObjectId(id) => self.state.bases.get(decode::object_id(&id)?)?,
                Id::Payload(payload) => {
                    self.state.bases.by_payload(&decode::payload_id(&payload)?)?
                }
                Id::UploadId(id) => {
                    let upload = self.state.uploads.get(decode::upload_id(&id)?)?;
                    let status = match &upload.header {
                        UploadHeader::Vector(vector) if upload.payload.is_complete() => {
                            Found::Object(response::vector_object(vector))
                        }
                        _ => Found::Upload(progress(&upload.payload)),
                    };
                    return Ok(v1::StatResponse { status: Some(status) });
                }
            };
            let object = response::bases_object(&bases);
            Ok(v1::StatResponse { status: Some(Found::Object(object)) })
        })
        .await
    }

    async fn list(
        &self,
        request: Request<v1::ListRequest>,
    ) -> Result<Response<v1::ListResponse>, Status> {
        let call = CallContext::new(&self.state, &request)?;
        let request = request.into_inner();
        call.run("list", async {
            let wanted = request.group.map(|group| decode::group("group", group)).transpose()?;
            let of = |group: Group| wanted.is_none_or(|wanted| wanted == group);
            let all = self.state.bases.list();
            let bases = all.iter().filter(|bases| of(bases.points.group()));
            Ok(v1::ListResponse { bases: bases.map(|bases| response::bases(bases)).collect() })
        })
        .await
    }

    async fn release(
        &self,
        request: Request<v1::ReleaseRequest>,
    ) -> Result<Response<v1::ReleaseResponse>, Status> {
        use v1::release_request::Id;
        let call = CallContext::new(&self.state, &request)?;
        let request = request.into_inner();
        call.run("release", async {
            match required("id", request.id)? {
                Id::UploadId(id) => self.state.uploads.release(decode::upload_id(&id)?)?,
                Id::ObjectId(id) => {
                    let (id, state) = (decode::object_id(&id)?, self.state.clone());
                    let released = tokio::task::spawn_blocking(move || state.bases.release(id));
                    released.await.map_err(|_| Error::Internal("release panicked".into()))??;
                }
            }
            Ok(v1::ReleaseResponse {})
        })
        .await
    }
}

fn progress(arrival: &crate::buffer::UploadBuffer) -> v1::UploadProgress {
    let missing = arrival.missing().into_iter().take(MISSING_MAX);
    v1::UploadProgress {
        bytes_total: arrival.len(),
        bytes_received: arrival.received(),
        missing: missing
            .map(|range| v1::ByteRange { start: range.start, end: range.end })
            .collect(),
    }
}
