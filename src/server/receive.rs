//! Pieces of uploads off the wire, with an eye on senders that are silent or drip.

use std::time::{Duration, Instant};

use tokio::time::timeout;
use tonic::{Status, Streaming};

use crate::{
    error::{Error, Problem},
    store::StreamGuard,
    wire::v1::Chunk,
};

/// A sender must bring this much in each idle period, or be done: less is a drip.
const DRIP_BYTES: u64 = 16 << 10;

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
    while !upload.arrival.is_complete() {
        let left = idle.saturating_sub(since.elapsed());
        let Some(message) = next(&mut stream, left).await.map_err(|status| {
            if status.code() == tonic::Code::DeadlineExceeded {
                Error::Idle(idle).into()
            } else {
                status
            }
        })?
        else {
            break;
        };
        let chunk = chunk_of(message).ok_or(Error::field("message", Problem::OutOfRange))?;
        bytes += upload.write(chunk.offset, &chunk.data)?;
        if bytes >= DRIP_BYTES {
            (since, bytes) = (Instant::now(), 0);
        }
    }
    guard.ended();
    Ok(())
}
