//! Receives pieces of uploads, and gives up on senders that are silent or too slow.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep_until, timeout};
use tonic::Code;

use super::status::CallError;
use crate::{
    error::{Error, FieldProblem},
    store::{StoredUpload, UploadStreamGuard, Uploads},
    telemetry,
    wire::{
        DecodedMessage, MessageReader,
        v1::{Chunk, WrittenRange},
    },
};

/// A sender must send this much within each idle timeout, or complete the payload.
pub const IDLE_MIN_BYTES: u64 = 16 << 10;

/// Waits for the next message for at most `idle`; `None` at the end of the stream.
pub async fn next_message<M: DecodedMessage>(
    stream: &mut MessageReader<M>,
    idle: Duration,
) -> Result<Option<M>, CallError> {
    Ok(timeout(idle, stream.message()).await.map_err(|_| Error::Idle(idle))??)
}

/// A piece of one of the uploads that a stream carries.
pub struct UploadPiece {
    /// Index of the upload.
    pub upload: usize,
    pub content: PieceContent,
}

pub enum PieceContent {
    Chunk(Chunk),
    /// The client has written it to a region.
    Written(WrittenRange),
}

impl UploadPiece {
    /// A piece of the only upload of a stream.
    pub fn of_only_upload(content: Option<PieceContent>) -> crate::error::Result<Self> {
        let content = content.ok_or(Error::field("message", FieldProblem::OutOfRange))?;
        Ok(Self { upload: 0, content })
    }
}

/// Receives pieces until the stream ends or the payloads are complete. `guards` has one guard for
/// each upload.
///
/// Errors: `Idle` for a sender that is silent or too slow; `Invalid` for a piece outside of its
/// payload; the upload's failure; those of `piece_of` and of the transport.
pub async fn receive_pieces<M: DecodedMessage>(
    mut stream: MessageReader<M>,
    guards: Vec<UploadStreamGuard>,
    idle: Duration,
    piece_of: impl Fn(M) -> crate::error::Result<UploadPiece>,
) -> Result<(), CallError> {
    let is_incomplete = |guard: &UploadStreamGuard| !guard.upload().payload.is_complete();
    let (mut timer_start, mut bytes_since_start) = (Instant::now(), 0);
    // One timer per stream, not per message: setting it wakes the thread that waits for sockets.
    let timer = sleep_until(timer_start + idle);
    tokio::pin!(timer);
    while guards.iter().any(is_incomplete) {
        let message = tokio::select! {
            biased;
            message = stream.message() => message?,
            () = &mut timer => {
                if timer_start.elapsed() >= idle {
                    return Err(Error::Idle(idle).into());
                }
                timer.as_mut().reset(timer_start + idle);
                continue;
            }
        };
        let Some(message) = message else {
            // A reset with CANCEL looks like the end of the stream. Yielding lets hyper notice the
            // reset and drop this call, so that the upload can be resumed.
            tokio::task::yield_now().await;
            break;
        };
        let UploadPiece { upload, content } = piece_of(message)?;
        let upload = guards[upload].upload();
        bytes_since_start += match content {
            PieceContent::Chunk(Chunk { offset, data }) => {
                telemetry::received(data.len() as u64);
                upload.write(offset, &data)?
            }
            PieceContent::Written(WrittenRange { offset, length }) => {
                upload.receive_written(offset, length)?
            }
        };
        if bytes_since_start >= IDLE_MIN_BYTES {
            (timer_start, bytes_since_start) = (Instant::now(), 0);
        }
    }
    guards.into_iter().for_each(UploadStreamGuard::end);
    Ok(())
}

/// Receives while a job runs, and waits for the job. An error of the job takes precedence over one
/// of the sender, because it states the cause.
pub async fn receive_during_job<T>(
    pieces: impl Future<Output = Result<(), CallError>>,
    job: impl Future<Output = crate::error::Result<T>>,
) -> Result<T, CallError> {
    tokio::pin!(pieces, job);
    tokio::select! {
        biased;
        result = &mut job => Ok(result?),
        received = &mut pieces => {
            received?;
            Ok(job.await?)
        }
    }
}

/// Ends an upload that failed or whose sender sent an invalid message, so that its memory is freed
/// at once. If the sender was silent or disconnected, the upload is kept, to be resumed.
pub fn end_unless_resumable(uploads: &Uploads, upload: &Arc<StoredUpload>, failure: &CallError) {
    let is_resumable =
        matches!(failure.code(), Code::Cancelled | Code::DeadlineExceeded | Code::Unknown);
    if upload.payload.failure().is_some() || !is_resumable && !upload.payload.is_complete() {
        uploads.remove(upload);
        upload.set_outcome(Err(Error::Cancelled));
    }
}
