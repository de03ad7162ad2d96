//! The Store service.

use std::sync::Arc;

use bytes::Bytes;
use tonic::{Request, Response, Status, Streaming};

use super::{import, list, read_object, regions};
use crate::grpc::{
    calls::call::{self, CallContext},
    devices::residency,
    requests::{
        receive::{self, PieceContent, UploadPiece},
        streamed_body,
    },
    responses::{response, response_queue::ResponseStream},
    state::ServerState,
};
use crate::{
    buffer::UploadBuffer,
    error::{Error, FieldProblem},
    store::{ObjectData, StoredObject, UploadHeader, UploadOutcome},
    telemetry::AuditAction,
    tenant::TenantId,
    wire::{
        decode::{self, ProgramName, UploadContent, required},
        encoded_bytes,
        v1::{self, store_server::Store},
    },
};

/// Maximum number of missing ranges in a response of `Stat`.
const MISSING_MAX: usize = 1024;

pub struct StoreService {
    pub state: Arc<ServerState>,
}

impl StoreService {
    /// The stored object of the same payload, if it makes the upload unnecessary.
    fn stored_payload(&self, tenant: TenantId, header: &UploadHeader) -> Option<Arc<StoredObject>> {
        let UploadHeader::Object(upload) = header else { return None };
        let stored = self.state.objects.by_payload(tenant, &upload.payload()?).ok()?;
        let is_same = match (&stored.data, upload.content) {
            (ObjectData::Bases(held), UploadContent::Bases(points)) => {
                held.points.group() == points.group && held.points.len() as u64 == points.count
            }
            (ObjectData::Matrix(held), UploadContent::Matrix(shape)) => held.shape() == shape,
            _ => false,
        };
        (is_same && (stored.persisted || !upload.persist)).then_some(stored)
    }
}

fn put_response(header: &UploadHeader, outcome: &UploadOutcome, existed: bool) -> v1::PutResponse {
    let object = match (outcome, header) {
        (UploadOutcome::Object(object), _) => Some(response::object(object)),
        (UploadOutcome::Vector, UploadHeader::Vector(vector)) => {
            Some(response::vector_object(vector))
        }
        (UploadOutcome::Vector, UploadHeader::Object(_)) => None,
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
        let request = streamed_body::messages(request, &self.state.settings)?;
        call::run(&self.state, "put", request, async |call, mut stream| {
            let first = receive::first_message(&call, &mut stream).await?;
            let header = match first.and_then(|first| first.message) {
                Some(Message::Bases(bases)) => UploadHeader::Object(decode::bases_upload(bases)?),
                Some(Message::Vector(vector)) => {
                    UploadHeader::Vector(decode::vector_upload(vector)?)
                }
                Some(Message::Matrix(matrix)) => {
                    UploadHeader::Object(decode::matrix_upload(matrix)?)
                }
                _ => return Err(Error::field("header", FieldProblem::Missing).into()),
            };
            if let Some(stored) = self.stored_payload(call.tenant.id, &header) {
                audit_put(&call, stored.data.kind().name(), &stored.id.0, true);
                return Ok(put_response(&header, &UploadOutcome::Object(stored), true));
            }
            let upload = import::open_upload(&call, &header)?;
            let existed = upload.payload.is_complete() && !upload.payload.is_empty();
            let piece_of = |message: v1::PutRequest| {
                UploadPiece::of_only_upload(match message.message {
                    Some(Message::Chunk(chunk)) => Some(PieceContent::Chunk(chunk)),
                    _ => None,
                })
            };
            let guards = vec![upload.begin_stream()?];
            let pieces = receive::receive_pieces(&call, stream, guards, piece_of);
            let outcome = receive::receive_during_job(pieces, upload.concluded()).await;
            let outcome = outcome.inspect_err(|failure| {
                receive::end_unless_resumable(&self.state.uploads, &upload, failure);
            })?;
            let (what, id) = match &outcome {
                UploadOutcome::Object(object) => (object.data.kind().name(), &object.id.0[..]),
                UploadOutcome::Vector => ("vector", &header.id().0[..]),
            };
            audit_put(&call, what, id, existed);
            Ok(put_response(&header, &outcome, existed))
        })
        .await
    }

    type GetStream = ResponseStream<v1::GetResponse>;

    async fn get(
        &self,
        request: Request<v1::GetRequest>,
    ) -> Result<Response<Self::GetStream>, Status> {
        call::run(&self.state, "get", request, async |call, request| {
            Ok(read_object::send(&call, read_object::resolve(&call, request)?)?)
        })
        .await
    }

    async fn stat(
        &self,
        request: Request<v1::StatRequest>,
    ) -> Result<Response<v1::StatResponse>, Status> {
        use v1::{stat_request::Id, stat_response::Status as Found};
        call::run(&self.state, "stat", request, async |call, request| {
            let ServerState { objects, uploads, .. } = &*self.state;
            let tenant = call.tenant.id;
            let mut unknown_devices = Vec::new();
            let mut stored = async |object: Arc<StoredObject>| {
                let held = residency::snapshot_for(&self.state, &object).await;
                unknown_devices = held.unknown_devices();
                Found::Object(v1::Object { kind: Some(response::held_object(&object, &held)) })
            };
            let status = match required("id", request.id)? {
                Id::ObjectId(id) => stored(objects.get(tenant, decode::object_id(&id)?)?).await,
                Id::Payload(id) => {
                    stored(objects.by_payload(tenant, &decode::payload_id(&id)?)?).await
                }
                Id::UploadId(id) => {
                    let upload = uploads.look_up(tenant, decode::upload_id(&id)?)?;
                    match &upload.header {
                        UploadHeader::Vector(vector) if upload.payload.is_complete() => {
                            Found::Object(response::vector_object(vector))
                        }
                        _ => Found::Upload(progress(&upload.payload)),
                    }
                }
            };
            let response = v1::StatResponse { status: Some(status), unknown_devices };
            call.admit_response(encoded_bytes(&response))?;
            Ok(response)
        })
        .await
    }

    async fn list(
        &self,
        request: Request<v1::ListRequest>,
    ) -> Result<Response<v1::ListResponse>, Status> {
        call::run(&self.state, "list", request, async |call, request| {
            Ok(list::list(&call, decode::list_spec(&request)?).await?)
        })
        .await
    }

    async fn put_program(
        &self,
        request: Request<v1::PutProgramRequest>,
    ) -> Result<Response<v1::PutProgramResponse>, Status> {
        call::run(&self.state, "put_program", request, async |call, request| {
            let program = required("program", request.program)?;
            let ProgramName { id, bytes } = ProgramName::of(&program);
            let programs = &call.state.programs;
            let tenant = &call.tenant;
            let existed = programs.get(tenant.id, id).is_ok();
            if !existed {
                programs.insert(tenant, id, decode::program(program)?, bytes);
            }
            audit_put(&call, "program", &id.0, existed);
            let program_id = Bytes::copy_from_slice(&id.0);
            Ok(v1::PutProgramResponse { program_id, existed })
        })
        .await
    }

    async fn set_residency(
        &self,
        request: Request<v1::SetResidencyRequest>,
    ) -> Result<Response<v1::SetResidencyResponse>, Status> {
        call::run(&self.state, "set_residency", request, async |call, request| {
            let spec = decode::residency_spec(request)?;
            let (action, id) = (spec.action, spec.id);
            let held = residency::set(&call, spec).await?;
            let object = format_args!("{} bases {}", action.name(), hex::encode(id.0));
            call.audit(AuditAction::SetResidency, object);
            let devices = held.into_iter().map(response::residency).collect();
            Ok(v1::SetResidencyResponse { devices })
        })
        .await
    }

    async fn open_region(
        &self,
        request: Request<v1::OpenRegionRequest>,
    ) -> Result<Response<v1::OpenRegionResponse>, Status> {
        call::run(&self.state, "open_region", request, async |call, request| {
            let opened = regions::open(&call, request.bytes).await?;
            let id = hex::encode(&opened.region_id);
            call.audit(AuditAction::OpenRegion, format_args!("region {id}"));
            Ok(opened)
        })
        .await
    }

    async fn release(
        &self,
        request: Request<v1::ReleaseRequest>,
    ) -> Result<Response<v1::ReleaseResponse>, Status> {
        use v1::release_request::Id;
        call::run(&self.state, "release", request, async |call, request| {
            let (what, id) = match required("id", request.id)? {
                Id::UploadId(id) => {
                    self.state.uploads.release(call.tenant.id, decode::upload_id(&id)?)?;
                    ("vector", id)
                }
                Id::ObjectId(id) => {
                    let object = decode::object_id(&id)?;
                    residency::unpin_released(&self.state, &call.tenant, object).await;
                    let released = self.state.objects.release(&call.tenant, object).await?;
                    (released.name(), id)
                }
            };
            tracing::debug!(caller = %call.caller.subject, peer = %call.peer, what, "released");
            call.audit(AuditAction::Release, format_args!("{what} {}", hex::encode(id)));
            Ok(v1::ReleaseResponse {})
        })
        .await
    }
}

/// `existed`: whether the tenant had the object already.
fn audit_put(call: &CallContext, what: &str, id: &[u8], existed: bool) {
    let again = if existed { ", which existed" } else { "" };
    call.audit(AuditAction::Put, format_args!("{what} {}{again}", hex::encode(id)));
}

fn progress(payload: &UploadBuffer) -> v1::UploadProgress {
    let missing = payload.missing().into_iter().take(MISSING_MAX);
    let missing = missing.map(|range| v1::ByteRange { start: range.start, end: range.end });
    v1::UploadProgress {
        bytes_total: payload.len(),
        bytes_received: payload.received(),
        missing: missing.collect(),
    }
}
