//! Sends ranges of objects in chunks.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use tokio::task::spawn_blocking;

use crate::grpc::{
    calls::call::CallContext,
    responses::{
        response::CHUNK_BYTES,
        response_queue::{ReaderPatience, ResponseSender, ResponseStream, response_queue},
        transport_parts::bytes_of_chunks,
    },
};
use crate::{
    curve::points::{self, Bases, PointEncoding},
    error::{Error, FieldProblem, Result},
    jobs::ComputeHost,
    sparse::SparseMatrix,
    store::{ObjectData, UploadHeader, UploadUseGuard},
    telemetry,
    tenant::Tenant,
    wire::{
        decode::{self, required},
        v1::{self, get_request::Id},
    },
};

/// Maximum number of chunks queued for a slow reader.
const SEND_AHEAD: usize = 4;

/// Bytes of the chunks that are encoded for a slow reader, apart from those in the transport: those
/// in the queue, and one that waits for its turn.
const AHEAD_BYTES: u64 = ((SEND_AHEAD + 1) * CHUNK_BYTES) as u64;

pub enum GetSource {
    Bases(Bases, PointEncoding),
    /// A range of bytes.
    Matrix(SparseMatrix, Range<u64>),
    Vector(UploadUseGuard, Range<u64>),
}

pub fn resolve(call: &CallContext, mut request: v1::GetRequest) -> Result<GetSource> {
    match required("id", request.id.take())? {
        Id::ObjectId(id) => {
            let object = call.state.objects.get(call.tenant.id, decode::object_id(&id)?)?;
            let bases = match &object.data {
                ObjectData::Bases(bases) => bases,
                ObjectData::Matrix(matrix) => {
                    no_encoding(&request)?;
                    call.audit_use("matrix", &object.id.0);
                    let range = range(&request, matrix.shape().bytes())?;
                    return Ok(GetSource::Matrix(matrix.clone(), range));
                }
            };
            let encoding =
                decode::point_encoding("encoding", required("encoding", request.encoding)?)?;
            call.audit_use("bases", &object.id.0);
            let count = bases.points.len() as u64;
            let range = range(&request, count)?;
            let length = (range.end - range.start) as usize;
            let points = bases.points.slice(range.start as usize, length);
            Ok(GetSource::Bases(points.ok_or(Error::NOT_FOUND)?, encoding))
        }
        Id::UploadId(id) => {
            no_encoding(&request)?;
            let id = decode::upload_id(&id)?;
            let upload = call.state.uploads.get(call.tenant.id, id)?;
            let UploadHeader::Vector(vector) = &upload.header else { return Err(Error::NOT_FOUND) };
            call.audit_use("vector", &id.0);
            if !upload.payload.is_complete() {
                let held = "an unfinished upload of a vector".into();
                return Err(Error::Mismatch { held, needed: "a complete vector".into() });
            }
            let width = vector.encoding.width() as u64;
            let range = range(&request, vector.count)?;
            Ok(GetSource::Vector(upload.begin_use(), range.start * width..range.end * width))
        }
    }
}

/// Errors: `Invalid` if the request has an encoding.
fn no_encoding(request: &v1::GetRequest) -> Result<()> {
    match request.encoding {
        Some(_) => Err(Error::field("encoding", FieldProblem::OutOfRange)),
        None => Ok(()),
    }
}

fn range(request: &v1::GetRequest, count: u64) -> Result<Range<u64>> {
    let too_large = |field, max| Error::field(field, FieldProblem::TooLarge { max });
    let rest = count.checked_sub(request.offset).ok_or(too_large("offset", count))?;
    let length = if request.length == 0 { rest } else { request.length };
    if length > rest {
        return Err(too_large("length", rest));
    }
    Ok(request.offset..request.offset + length)
}

impl GetSource {
    fn bytes(&self) -> u64 {
        match self {
            Self::Bases(bases, encoding) => {
                (bases.len() * encoding.point_bytes(bases.group())) as u64
            }
            Self::Matrix(_, range) | Self::Vector(_, range) => range.end - range.start,
        }
    }

    /// Bytes that a response takes while nobody reads it. The chunks of a vector are lent by its
    /// payload.
    fn unread_bytes(&self) -> u64 {
        let bytes = self.bytes();
        let ahead = match self {
            Self::Bases(..) | Self::Matrix(..) => bytes.min(AHEAD_BYTES),
            Self::Vector(..) => 0,
        };
        ahead + bytes_of_chunks(bytes)
    }

    /// The chunk at byte `offset`.
    ///
    /// Errors: `Internal`.
    async fn chunk(&self, host: &Arc<ComputeHost>, tenant: &Tenant, offset: u64) -> Result<Bytes> {
        match self {
            Self::Vector(used, range) => {
                let start = range.start + offset;
                // Ends at a multiple of a chunk, as the blocks of payload memory do.
                let chunk = CHUNK_BYTES as u64 - start % CHUNK_BYTES as u64;
                Ok(used.upload().payload.bytes(start, chunk.min(range.end - start) as usize))
            }
            Self::Matrix(matrix, range) => {
                let start = (range.start + offset) as usize;
                let matrix = matrix.clone();
                let end = (start + CHUNK_BYTES).min(range.end as usize);
                // The bytes may have to be read from disk.
                let copy = move || Bytes::copy_from_slice(&matrix.as_bytes()[start..end]);
                read_blocking(tenant, copy).await
            }
            Self::Bases(bases, encoding) => {
                let width = encoding.point_bytes(bases.group());
                let first = offset as usize / width;
                let count = (CHUNK_BYTES / width).min(bases.len() - first);
                let piece = bases.slice(first, count).ok_or(Error::NOT_FOUND)?;
                let host = host.clone();
                let encoding = *encoding;
                let encode = move || match &piece {
                    Bases::G1(points) => points::encode(encoding, points),
                    Bases::G2(points) => points::encode(encoding, points),
                };
                let encode = move || host.run_sized(count * width, encode).into();
                read_blocking(tenant, encode).await
            }
        }
    }

    /// Called after bytes were read.
    ///
    /// Errors: `DiskFailed` if some could not be read.
    fn check_file(&self) -> Result<()> {
        let is_intact = match self {
            Self::Bases(bases, _) => bases.is_intact(),
            Self::Matrix(matrix, _) => matrix.is_intact(),
            Self::Vector(..) => true,
        };
        if is_intact { Ok(()) } else { Err(Error::DISK_FAILED) }
    }

    /// Errors: `Internal`, `DiskFailed`, and those of [`ResponseSender::send`].
    async fn send_all(
        self,
        host: &Arc<ComputeHost>,
        tenant: &Tenant,
        sender: &ResponseSender<v1::GetResponse>,
    ) -> Result<()> {
        let total = self.bytes();
        let mut offset = 0;
        while offset < total {
            let data = self.chunk(host, tenant, offset).await?;
            self.check_file()?;
            let bytes = data.len() as u64;
            sender.send(v1::GetResponse { chunk: Some(v1::Chunk { offset, data }) }).await?;
            telemetry::SENT_BYTES_TOTAL.add(bytes);
            offset += bytes;
        }
        Ok(())
    }
}

/// Reads bytes, possibly from a disk, on a thread for blocking work when it is the tenant's turn.
///
/// Errors: `Internal`.
async fn read_blocking(
    tenant: &Tenant,
    read: impl FnOnce() -> Bytes + Send + 'static,
) -> Result<Bytes> {
    let failed = "reading an object panicked";
    let turn = tenant.object_reads.clone().acquire_owned().await;
    let turn = turn.map_err(|_| Error::internal(failed))?;
    let read = spawn_blocking(move || {
        // Here, because the thread goes on if the caller has gone.
        let _turn = turn;
        read()
    });
    read.await.map_err(|_| Error::internal(failed))
}

/// Sends the range. Gives up on a reader that accepts nothing for the idle timeout or until the
/// deadline.
///
/// Errors: `Exhausted`.
pub fn send(call: &CallContext, source: GetSource) -> Result<ResponseStream<v1::GetResponse>> {
    call.admit_response(source.unread_bytes())?;
    let (sender, stream) = response_queue(SEND_AHEAD, ReaderPatience::of(call));
    let host = call.state.compute.clone();
    let tenant = call.tenant.clone();
    tokio::spawn(async move {
        let sent = source.send_all(&host, &tenant, &sender).await;
        // The call was counted when the response began.
        let _sent = sender.finish(sent).await;
    });
    Ok(stream)
}
