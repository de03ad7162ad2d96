//! Pieces of uploads off the wire, with an eye on senders that are silent or drip.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep_until, timeout};
use tonic::{Status, Streaming};

use crate::{
    error::{Error, Problem},
    store::{StreamGuard, Upload, Uploads},
    telemetry,
    wire::v1::Chunk,
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

/// Ends an upload that a streamed job has used up. One whose connection broke stays for a while, to
/// be resumed.
pub fn used_up(uploads: &Uploads, upload: &Arc<Upload>, failure: Option<&Status>) {
    let broke = failure.is_some_and(|status| {
        matches!(status.code(), tonic::Code::Cancelled | tonic::Code::Unknown)
    });
    if broke && !upload.arrival.is_complete() {
        return;
    }
    uploads.remove(upload);
    if failure.is_some() {
        // Other streams that carry it learn that it is over; the reason is told where the job is.
        upload.conclude(Err(Error::Cancelled));
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
