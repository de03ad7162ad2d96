//! Receives chunks of uploads, and gives up on senders that are silent or too slow.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep_until, timeout};
use tonic::Code;

use super::{call::CallContext, state::ServerState, status::CallError};
use crate::{
    buffer::UploadBuffer,
    error::{Error, FieldProblem},
    store::{StoredUpload, UploadHeader, UploadStreamGuard, Uploads},
    telemetry,
    wire::{DecodedMessage, MessageReader, decode::VectorUploadHeader, v1::Chunk},
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

/// A chunk of one of the uploads that a stream carries.
pub struct UploadChunk {
    /// Index of the upload.
    pub upload: usize,
    pub chunk: Chunk,
}

impl UploadChunk {
    /// A chunk of the only upload of a stream.
    pub fn of_only_upload(chunk: Option<Chunk>) -> crate::error::Result<Self> {
        let chunk = chunk.ok_or(Error::field("message", FieldProblem::OutOfRange))?;
        Ok(Self { upload: 0, chunk })
    }
}

/// Receives chunks until the stream ends or the payloads are complete. `guards` has one guard for
/// each upload.
///
/// Errors: `Idle` for a sender that is silent or too slow; `Invalid` for a chunk outside of its
/// payload; the upload's failure; those of `chunk_of` and of the transport.
pub async fn receive_chunks<M: DecodedMessage>(
    mut stream: MessageReader<M>,
    guards: Vec<UploadStreamGuard>,
    idle: Duration,
    chunk_of: impl Fn(M) -> crate::error::Result<UploadChunk>,
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
        let UploadChunk { upload, chunk } = chunk_of(message)?;
        telemetry::received(chunk.data.len() as u64);
        bytes_since_start += guards[upload].upload().write(chunk.offset, &chunk.data)?;
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

/// The uploads that a streamed job reads. If they are dropped before [`StreamedUploads::end`], they
/// end if the deadline has passed, and can be resumed if the caller has gone.
pub struct StreamedUploads {
    uploads: Vec<Arc<StoredUpload>>,
    state: Arc<ServerState>,
    deadline: Option<std::time::Instant>,
    is_ended: bool,
}

impl StreamedUploads {
    pub fn open(
        call: &CallContext,
        vectors: impl IntoIterator<Item = VectorUploadHeader>,
    ) -> crate::error::Result<Self> {
        let (state, deadline) = (call.state.clone(), call.deadline);
        let mut opened = Self { uploads: Vec::new(), state, deadline, is_ended: false };
        for vector in vectors {
            let admit = |bytes| call.admit(bytes, 0);
            let upload = opened.state.uploads.open(&UploadHeader::Vector(vector), admit)?;
            opened.uploads.push(upload);
        }
        Ok(opened)
    }

    pub fn payload(&self, index: usize) -> &Arc<UploadBuffer> {
        &self.uploads[index].payload
    }

    pub fn payloads(&self) -> impl Iterator<Item = &Arc<UploadBuffer>> {
        self.uploads.iter().map(|upload| &upload.payload)
    }

    pub fn is_complete(&self) -> bool {
        self.payloads().all(|payload| payload.is_complete())
    }

    /// Time from `begun` to the last byte that was received.
    pub fn receive_time_since(&self, begun: std::time::Instant) -> Duration {
        let times = self.payloads().map(|payload| payload.receive_time_since(begun));
        times.max().unwrap_or_default()
    }

    pub fn begin_streams(&self) -> Vec<UploadStreamGuard> {
        self.uploads.iter().map(StoredUpload::begin_stream).collect()
    }

    /// Ends the uploads because the job has ended. If the connection broke, they are kept for the
    /// idle timeout, so that they can be resumed.
    pub fn end(&mut self, failure: Option<&CallError>) {
        self.is_ended = true;
        let is_broken = failure
            .is_some_and(|failure| matches!(failure.code(), Code::Cancelled | Code::Unknown));
        if is_broken && !self.is_complete() {
            return;
        }
        for upload in &self.uploads {
            self.state.uploads.remove(upload);
            if failure.is_some() {
                // Ends the other streams that carry it. The call of the job reports the reason.
                upload.set_outcome(Err(Error::Cancelled));
            }
        }
    }
}

impl Drop for StreamedUploads {
    fn drop(&mut self) {
        if self.is_ended {
            return;
        }
        if self.deadline.is_some_and(|deadline| deadline <= std::time::Instant::now()) {
            self.end(Some(&Error::Deadline.into()));
        } else {
            self.uploads.iter().for_each(|upload| upload.mark_abandoned());
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
