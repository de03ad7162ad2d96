//! Pieces of uploads off the wire, with an eye on senders that are silent or drip.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep_until, timeout};
use tonic::{Status, Streaming};

use super::{State, call::Call};
use crate::{
    error::{Error, Problem},
    store::{Header, StreamGuard, Upload, Uploads},
    telemetry,
    wire::{decode::VectorUpload, v1::Chunk},
};

/// A sender must bring this much in each idle period, or be done: less is a drip.
pub const DRIP_BYTES: u64 = 16 << 10;

/// The next message, within the idle limit; `None` at the stream's end.
///
/// Errors: `Idle`; the transport's.
pub async fn next<M>(stream: &mut Streaming<M>, idle: Duration) -> Result<Option<M>, Status> {
    match timeout(idle, stream.message()).await {
        Ok(message) => message,
        Err(_) => Err(Error::Idle(idle).into()),
    }
}

/// Takes in pieces until the sender ends or the payload is complete.
///
/// Errors: `Idle` for a sender that is silent or drips; `Invalid` for a piece that does not fit or
/// a message that is not a piece; what the upload failed with; the transport's.
pub async fn receive<M>(
    mut stream: Streaming<M>,
    guard: StreamGuard,
    idle: Duration,
    chunk_of: fn(M) -> Option<Chunk>,
) -> Result<(), Status> {
    let upload = guard.upload().clone();
    let (mut since, mut bytes) = (Instant::now(), 0);
    // One timer a stream, not one a message: setting it wakes the thread that waits for sockets.
    let alarm = sleep_until(since + idle);
    tokio::pin!(alarm);
    while !upload.arrival.is_complete() {
        let message = tokio::select! {
            biased;
            message = stream.message() => message?,
            () = &mut alarm => {
                if since.elapsed() >= idle {
                    return Err(Error::Idle(idle).into());
                }
                alarm.as_mut().reset(since + idle);
                continue;
            }
        };
        let Some(message) = message else {
            // A reset with CANCEL comes as an end too: hyper looks for one, and drops this call,
            // when it has nothing else to do. What is left of the upload is then to be resumed.
            tokio::task::yield_now().await;
            break;
        };
        let chunk = chunk_of(message).ok_or(Error::field("message", Problem::OutOfRange))?;
        telemetry::received(chunk.data.len() as u64);
        bytes += upload.write(chunk.offset, &chunk.data)?;
        if bytes >= DRIP_BYTES {
            (since, bytes) = (Instant::now(), 0);
        }
    }
    guard.ended();
    Ok(())
}

/// Receives while a job runs, and waits for the job. What the job says comes first: it knows why.
///
/// Errors: the job's; the sender's.
pub async fn meanwhile<T>(
    chunks: impl Future<Output = Result<(), Status>>,
    job: impl Future<Output = crate::error::Result<T>>,
) -> Result<T, Status> {
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

/// The upload that a streamed job reads. It ends with the job, and does so too where the call is
/// dropped before: because its deadline has passed, or because its caller has gone.
pub struct JobInput {
    upload: Arc<Upload>,
    state: Arc<State>,
    deadline: Option<std::time::Instant>,
    ended: bool,
}

impl JobInput {
    /// Opens the upload, or finds it where it is under way.
    ///
    /// Errors: as [`Uploads::open`]; `Exhausted` where it is not admitted.
    pub fn open(call: &Call, vector: VectorUpload) -> crate::error::Result<Self> {
        let state = call.state.clone();
        let admit = |bytes| call.admit(bytes, 0);
        let (upload, _) = state.uploads.open(&Header::Vector(vector), admit)?;
        Ok(Self { upload, state, deadline: call.deadline, ended: false })
    }

    /// What is read.
    pub fn upload(&self) -> &Arc<Upload> {
        &self.upload
    }

    /// The job has used it up, or failed. One whose connection broke stays for a while, to be
    /// resumed.
    pub fn end(&mut self, failure: Option<&Status>) {
        self.ended = true;
        let broke = failure.is_some_and(|status| {
            matches!(status.code(), tonic::Code::Cancelled | tonic::Code::Unknown)
        });
        if broke && !self.upload.arrival.is_complete() {
            return;
        }
        self.state.uploads.remove(&self.upload);
        if failure.is_some() {
            // Other streams that carry it learn that it is over; the reason is told where the job
            // is.
            self.upload.conclude(Err(Error::Cancelled));
        }
    }
}

impl Drop for JobInput {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        if self.deadline.is_some_and(|deadline| deadline <= std::time::Instant::now()) {
            self.end(Some(&Error::Deadline.into()));
        } else {
            self.upload.abandon();
        }
    }
}

/// Ends an upload that failed or whose sender sent what is no part of it, so that its memory comes
/// back at once. One whose sender was silent or broke off stays for a while, to be resumed.
pub fn given_up(uploads: &Uploads, upload: &Arc<Upload>, failure: &Status) {
    use tonic::Code::{Cancelled, DeadlineExceeded, Unknown};
    let resumable = matches!(failure.code(), Cancelled | DeadlineExceeded | Unknown);
    let complete = upload.arrival.is_complete() && upload.arrival.failure().is_none();
    if upload.arrival.failure().is_some() || !resumable && !complete {
        uploads.remove(upload);
        upload.conclude(Err(Error::Cancelled));
    }
}
