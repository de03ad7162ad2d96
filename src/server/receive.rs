//! Receives chunks of uploads, and gives up on senders that are silent or too slow.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep_until, timeout};
use tonic::{Code, Streaming};

use super::{call::CallContext, state::ServerState, status::CallError};
use crate::{
    error::{Error, FieldProblem},
    store::{StoredUpload, UploadHeader, UploadStreamGuard, Uploads},
    telemetry,
    wire::{decode::VectorUploadHeader, v1::Chunk},
};

/// A sender must send this much within each idle timeout, or complete the payload.
pub const IDLE_MIN_BYTES: u64 = 16 << 10;

/// Waits for the next message for at most `idle`; `None` at the end of the stream.
pub async fn next_message<M>(
    stream: &mut Streaming<M>,
    idle: Duration,
) -> Result<Option<M>, CallError> {
    Ok(timeout(idle, stream.message()).await.map_err(|_| Error::Idle(idle))??)
}

/// Receives chunks until the stream ends or the payload is complete.
///
/// Errors: `Idle` for a sender that is silent or too slow; `Invalid` for a chunk outside of the
/// payload or a message that is not a chunk; the upload's failure; those of the transport.
pub async fn receive_chunks<M>(
    mut stream: Streaming<M>,
    guard: UploadStreamGuard,
    idle: Duration,
    chunk_of: fn(M) -> Option<Chunk>,
) -> Result<(), CallError> {
    let upload = guard.upload().clone();
    let (mut timer_start, mut bytes_since_start) = (Instant::now(), 0);
    // One timer per stream, not per message: setting it wakes the thread that waits for sockets.
    let timer = sleep_until(timer_start + idle);
    tokio::pin!(timer);
    while !upload.payload.is_complete() {
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
        let chunk = chunk_of(message).ok_or(Error::field("message", FieldProblem::OutOfRange))?;
        telemetry::received(chunk.data.len() as u64);
        bytes_since_start += upload.write(chunk.offset, &chunk.data)?;
        if bytes_since_start >= IDLE_MIN_BYTES {
            (timer_start, bytes_since_start) = (Instant::now(), 0);
        }
    }
    guard.end();
    Ok(())
}

/// Receives while a job runs, and waits for the job. An error of the job takes precedence over one
/// of the sender, because it states the cause.
pub async fn receive_during_job<T>(
    chunks: impl Future<Output = Result<(), CallError>>,
    job: impl Future<Output = crate::error::Result<T>>,
) -> Result<T, CallError> {
    tokio::pin!(chunks, job);
    tokio::select! {
        biased;
        result = &mut job => Ok(result?),
        received = &mut chunks => {
            received?;
            Ok(job.await?)
        }
    }
}

/// The upload that a streamed job reads. If it is dropped before [`StreamedUpload::end`], the
/// upload ends if the deadline has passed, and can be resumed if the caller has gone.
pub struct StreamedUpload {
    pub upload: Arc<StoredUpload>,
    state: Arc<ServerState>,
    deadline: Option<std::time::Instant>,
    is_ended: bool,
}

impl StreamedUpload {
    pub fn open(call: &CallContext, vector: VectorUploadHeader) -> crate::error::Result<Self> {
        let state = call.state.clone();
        let admit = |bytes| call.admit(bytes, 0);
        let upload = state.uploads.open(&UploadHeader::Vector(vector), admit)?;
        Ok(Self { upload, state, deadline: call.deadline, is_ended: false })
    }

    /// Ends the upload because the job has ended. If the connection broke, the upload is kept for
    /// the idle timeout, so that it can be resumed.
    pub fn end(&mut self, failure: Option<&CallError>) {
        self.is_ended = true;
        let is_broken = failure
            .is_some_and(|failure| matches!(failure.code(), Code::Cancelled | Code::Unknown));
        if is_broken && !self.upload.payload.is_complete() {
            return;
        }
        self.state.uploads.remove(&self.upload);
        if failure.is_some() {
            // Ends the other streams that carry it. The call of the job reports the reason.
            self.upload.set_outcome(Err(Error::Cancelled));
        }
    }
}

impl Drop for StreamedUpload {
    fn drop(&mut self) {
        if self.is_ended {
            return;
        }
        if self.deadline.is_some_and(|deadline| deadline <= std::time::Instant::now()) {
            self.end(Some(&Error::Deadline.into()));
        } else {
            self.upload.mark_abandoned();
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
