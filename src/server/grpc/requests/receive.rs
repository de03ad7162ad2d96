//! Receives pieces of uploads, and gives up on senders that are silent or too slow.

use std::sync::Arc;

use tonic::Code;

use crate::grpc::{
    calls::{
        call::CallContext,
        status::{CallError, status_of},
    },
    connections::pace::{MinRate, SenderPace},
};
use crate::{
    error::{Error, FieldProblem},
    jobs::AdmissionPermit,
    store::{StoredUpload, UploadStreamGuard, Uploads},
    telemetry,
    wire::{
        ChunkedRequest, DecodedMessage, MessageReader,
        v1::{Chunk, WrittenRange},
    },
};

/// A sender whose messages never end is given up after this many late messages with too few new
/// bytes. Fewer can have waited while this task was delayed.
const LATE_MESSAGES_MAX: u32 = 64;

/// Waits for the first message, as long as its sender is fast enough; `None` at the end of the
/// stream. Its bytes are in the budgets of `call` until it is complete.
///
/// Errors: `Exhausted`; `Idle`; those of the transport.
pub async fn first_message<M: DecodedMessage>(
    call: &CallContext,
    stream: &mut MessageReader<M>,
) -> Result<Option<M>, CallError> {
    let mut pace = SenderPace::new(MinRate::of(&call.state.settings));
    let mut counted = 0;
    let mut permit = None;
    loop {
        let admit = |bytes: usize| {
            if permit.is_none() {
                permit = Some(call.admit_message(bytes as u64).map_err(status_of)?);
            }
            Ok(())
        };
        tokio::select! {
            biased;
            message = stream.admitted_message(admit) => {
                return message.map_err(CallError::Transport);
            }
            () = pace.timer() => {}
        }
        let begun = stream.begun_bytes();
        pace.check(begun.saturating_sub(counted))?;
        counted = begun;
    }
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

/// Counts what a stream brings: new bytes of uploads, and those of a message whose end has not
/// arrived.
struct StreamProgress {
    pace: SenderPace,
    /// Bytes of the unfinished message that are counted.
    counted: u64,
    /// Bytes of earlier messages that were counted and brought nothing new.
    useless: u64,
    /// No bytes of unfinished messages are counted after this many useless ones.
    useless_max: u64,
    late_messages: u32,
}

impl StreamProgress {
    fn new(min: MinRate, message_bytes_max: u64) -> Self {
        let pace = SenderPace::new(min);
        let useless_max = message_bytes_max;
        Self { pace, counted: 0, useless: 0, useless_max, late_messages: 0 }
    }

    /// Called when the timer has fired, while `begun` bytes of a message have arrived.
    ///
    /// Errors: `Idle`.
    fn check(&mut self, begun: u64) -> crate::error::Result<()> {
        if self.useless > self.useless_max {
            return self.pace.check(0);
        }
        let new = begun.saturating_sub(self.counted);
        self.counted = begun;
        self.pace.check(new)
    }

    /// A message has arrived, and `fresh` of its bytes are new.
    ///
    /// Errors: `Idle` for one of many late messages. The timer is not polled while messages follow
    /// each other without a pause.
    fn message(&mut self, fresh: u64) -> crate::error::Result<()> {
        let counted = std::mem::take(&mut self.counted);
        self.useless += counted.saturating_sub(fresh);
        self.pace.sent(fresh.saturating_sub(counted));
        if fresh > 0 {
            self.pace.skip_time();
        }
        self.late_messages = if self.pace.is_late() { self.late_messages + 1 } else { 0 };
        if self.late_messages > LATE_MESSAGES_MAX { Err(self.pace.error().into()) } else { Ok(()) }
    }
}

/// Receives pieces until the stream ends or the payloads are complete. `guards` has one guard for
/// each upload. A message that must be collected from several frames is in the budgets of `call`.
///
/// Errors: `Idle` for a sender that is silent or too slow; `Invalid` for a piece outside of its
/// payload; `Exhausted`; the upload's failure; those of `piece_of` and of the transport.
pub async fn receive_pieces<M: ChunkedRequest>(
    call: &CallContext,
    stream: MessageReader<M>,
    guards: Vec<UploadStreamGuard>,
    piece_of: impl Fn(M) -> crate::error::Result<UploadPiece>,
) -> Result<(), CallError> {
    let admit = |bytes| call.admit_message(bytes);
    receive_from(stream, guards, MinRate::of(&call.state.settings), admit, piece_of).await
}

async fn receive_from<M: ChunkedRequest>(
    mut stream: MessageReader<M>,
    guards: Vec<UploadStreamGuard>,
    min: MinRate,
    admit: impl Fn(u64) -> crate::error::Result<AdmissionPermit>,
    piece_of: impl Fn(M) -> crate::error::Result<UploadPiece>,
) -> Result<(), CallError> {
    let is_incomplete = |guard: &UploadStreamGuard| !guard.upload().payload.is_complete();
    let mut progress = StreamProgress::new(min, stream.len_max() as u64);
    let mut permit = None;
    while guards.iter().any(is_incomplete) {
        let admit_once = |bytes: usize| {
            if permit.is_none() {
                permit = Some(admit(bytes as u64).map_err(status_of)?);
            }
            Ok(())
        };
        let message = tokio::select! {
            biased;
            message = stream.piece(admit_once) => message.map_err(CallError::Transport)?,
            () = progress.pace.timer() => {
                progress.check(stream.begun_bytes())?;
                continue;
            }
        };
        progress.pace.count_wait();
        let Some(message) = message else {
            // A reset with CANCEL looks like the end of the stream. Yielding lets hyper notice the
            // reset and drop this call, so that the upload can be resumed.
            tokio::task::yield_now().await;
            break;
        };
        let UploadPiece { upload, content } = piece_of(message)?;
        let upload = guards[upload].upload();
        let chunk_rest = stream.chunk_rest();
        progress.message(match content {
            PieceContent::Chunk(Chunk { offset, data }) => {
                telemetry::RECEIVED_BYTES_TOTAL.add(data.len() as u64);
                upload.write_piece(offset, &data, chunk_rest)?
            }
            PieceContent::Written(WrittenRange { offset, length }) => {
                upload.receive_written(offset, length)?
            }
        })?;
        permit = None;
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
        upload.set_outcome(Err(Error::CANCELLED));
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::Pin,
        task::{Context, Poll},
        time::{Duration, Instant},
    };

    use bytes::Bytes;
    use http_body::Frame;
    use tonic::{Status, body::Body};

    use super::*;
    use crate::{
        buffer::PayloadPool,
        curve::scalars::ScalarEncoding,
        error::EngineError,
        store::{UploadHeader, UploadOwner},
        tenant::Tenants,
        wire::{
            decode::{UploadId, VectorUploadHeader},
            v1::{PutRequest, put_request::Message},
        },
    };

    const IDLE: Duration = Duration::from_millis(20);
    const MIN: MinRate = MinRate { window: IDLE, bytes_per_second: 1000 };

    /// The same chunk again and again, without a pause. Ends after many idle timeouts.
    struct SameChunk {
        message: Bytes,
        end: Instant,
    }

    impl http_body::Body for SameChunk {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            let frame = || Ok(Frame::data(self.message.clone()));
            Poll::Ready((Instant::now() < self.end).then(frame))
        }
    }

    #[tokio::test]
    async fn a_sender_that_repeats_a_chunk_without_a_pause_is_given_up() {
        // A prefix, and a chunk of one byte.
        let message = Bytes::from_static(&[0, 0, 0, 0, 5, 0x1a, 3, 0x12, 1, 1]);
        let body = SameChunk { message, end: Instant::now() + 100 * IDLE };
        let stream = MessageReader::<PutRequest>::of_request(Body::new(body), 1 << 20);
        let uploads = Uploads::new(1, PayloadPool::new(0, 0).unwrap());
        let id = UploadId([1; 16]);
        let vector =
            VectorUploadHeader { id, encoding: ScalarEncoding::Canonical, count: 2, streams: 1 };
        let tenant = Tenants::default().find(None, "").unwrap();
        let header = UploadHeader::Vector(vector);
        let owner = UploadOwner::of_tenant(&tenant);
        let upload = uploads.open(owner, &header, |_| Ok(vec![])).unwrap();
        let piece_of = |request: PutRequest| {
            UploadPiece::of_only_upload(match request.message {
                Some(Message::Chunk(chunk)) => Some(PieceContent::Chunk(chunk)),
                _ => None,
            })
        };
        let guards = vec![upload.begin_stream().unwrap()];
        let admit = |_| Ok(vec![]);
        let received = receive_from(stream, guards, MIN, admit, piece_of).await;
        assert!(
            matches!(received, Err(CallError::Refused(Error::Engine(EngineError::Idle(IDLE))))),
            "{received:?}"
        );
    }
}
