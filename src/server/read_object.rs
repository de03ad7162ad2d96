//! Sends ranges of objects in chunks.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use tokio::{sync::mpsc, task::spawn_blocking, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::{
    call::CallContext,
    response::{self, CHUNK_BYTES},
};
use crate::{
    curve::points::{self, Bases, PointEncoding},
    error::{Error, FieldProblem, Result},
    jobs::ComputeHost,
    store::{UploadHeader, UploadUseGuard},
    telemetry,
    wire::{
        decode::{self, required},
        v1::{self, get_request::Id},
    },
};

/// Chunks that wait for a slow reader.
const SEND_AHEAD: usize = 4;

pub enum GetSource {
    Bases(Bases, PointEncoding),
    Vector(UploadUseGuard, Range<u64>),
}

pub fn resolve(call: &CallContext, mut request: v1::GetRequest) -> Result<GetSource> {
    match required("id", request.id.take())? {
        Id::ObjectId(id) => {
            let bases = call.state.bases.get(decode::object_id(&id)?)?;
            let encoding =
                decode::point_encoding("encoding", required("encoding", request.encoding)?)?;
            let count = bases.points.len() as u64;
            let range = range(&request, count)?;
            let length = (range.end - range.start) as usize;
            let points = bases.points.slice(range.start as usize, length);
            Ok(GetSource::Bases(points.ok_or(Error::NotFound)?, encoding))
        }
        Id::UploadId(id) => {
            if request.encoding.is_some() {
                return Err(Error::field("encoding", FieldProblem::OutOfRange));
            }
            let upload = call.state.uploads.get(decode::upload_id(&id)?)?;
            let UploadHeader::Vector(vector) = &upload.header else { return Err(Error::NotFound) };
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
            Self::Vector(_, range) => range.end - range.start,
        }
    }

    /// The chunk at byte `offset`.
    fn chunk(&self, host: &ComputeHost, offset: u64) -> Bytes {
        match self {
            Self::Vector(used, range) => {
                let start = range.start + offset;
                let len = CHUNK_BYTES.min((range.end - start) as usize);
                response::zeroized_bytes(used.upload().payload.copy(start, len))
            }
            Self::Bases(bases, encoding) => {
                let width = encoding.point_bytes(bases.group());
                let first = offset as usize / width;
                let count = (CHUNK_BYTES / width).min(bases.len() - first);
                let piece = bases.slice(first, count);
                let encode = || match &piece {
                    Some(Bases::G1(points)) => points::encode(*encoding, points),
                    Some(Bases::G2(points)) => points::encode(*encoding, points),
                    None => Vec::new(),
                };
                host.run_sized(count * width, encode).into()
            }
        }
    }
}

/// Sends the range. Gives up on a reader that accepts nothing for the idle timeout.
pub fn send(
    call: &CallContext,
    source: GetSource,
) -> ReceiverStream<std::result::Result<v1::GetResponse, Status>> {
    let (sender, receiver) = mpsc::channel(SEND_AHEAD);
    let (idle, host) = (call.state.settings.idle_timeout, call.state.compute.clone());
    tokio::spawn(async move {
        let (total, mut offset) = (source.bytes(), 0);
        let source = Arc::new(source);
        while offset < total {
            let (held, host) = (source.clone(), host.clone());
            let read = spawn_blocking(move || held.chunk(&host, offset)).await;
            let Ok(data) = read else {
                // Without an error, the end would look like the end of the object.
                let failed = Error::Internal("reading an object panicked".into());
                let _gone = timeout(idle, sender.send(Err(failed.into()))).await;
                return;
            };
            let bytes = data.len() as u64;
            let chunk = Some(v1::Chunk { offset, data });
            let sent = timeout(idle, sender.send(Ok(v1::GetResponse { chunk }))).await;
            if bytes == 0 || !matches!(sent, Ok(Ok(()))) {
                return;
            }
            telemetry::sent(bytes);
            offset += bytes;
        }
    });
    ReceiverStream::new(receiver)
}
