//! Sends the rows of an NTT to the client while later rows are still computed.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::{
    ServerState,
    call::CallContext,
    call_record,
    ntt::{self, AdmittedNtt, FinishedNtt},
    receive::StreamedUpload,
    response::{self, CHUNK_BYTES},
    status::CallError,
};
use crate::{
    buffer::UploadBuffer,
    error::{Error, Result},
    jobs::NttCheck,
    telemetry,
    wire::v1::{self, ntt_stream_response::Message},
};

/// Chunks that wait for a slow reader: more would use more memory for it.
const CHUNKS_AHEAD: usize = 8;

/// An NTT job with its input and its result rows.
pub struct NttStreaming {
    job: NttJobState,
    state: Arc<ServerState>,
    input: StreamedUpload,
    /// When the call began.
    begun: Instant,
    rows: Arc<UploadBuffer>,
    /// Send rows as they are computed; false if they are checked, which needs all of them first.
    sends_early: bool,
}

enum NttJobState {
    Running(BoxFuture<'static, Result<FinishedNtt>>),
    Done(FinishedNtt),
}

/// The sending half of the response stream.
type RowSender = mpsc::Sender<std::result::Result<v1::NttStreamResponse, Status>>;

impl NttStreaming {
    /// Queues `job` at once. Dropping `NttStreaming` cancels it.
    pub fn new(call: &CallContext, job: AdmittedNtt, input: StreamedUpload) -> Self {
        let (rows, early) = (job.rows().clone(), job.check() == NttCheck::None);
        let job = NttJobState::Running(Box::pin(job.submit(call, input.upload().payload.clone())));
        Self {
            job,
            state: call.state.clone(),
            input,
            begun: call.started,
            rows,
            sends_early: early,
        }
    }

    /// Ends the input because the call has failed.
    pub fn fail(&mut self, error: &CallError) {
        self.input.end(Some(error));
    }

    /// Waits until all input has arrived and the first rows are computed, or until the job is done.
    ///
    /// Errors: those of the job.
    pub async fn wait_for_first_rows(&mut self) -> Result<()> {
        let first = self.rows.len().min(CHUNK_BYTES as u64);
        let input = self.input.upload().clone();
        loop {
            let (rows, more) = (self.rows.progress(), input.payload.progress());
            let there =
                self.sends_early && input.payload.is_complete() && self.rows.has_received(0..first);
            let done = match &mut self.job {
                NttJobState::Running(job) if !there => tokio::select! {
                    biased;
                    done = job => done,
                    () = rows => continue,
                    () = more => continue,
                },
                _ => return Ok(()),
            };
            self.finish_job(done)?;
        }
    }

    /// Records the end of the job and ends its input.
    fn finish_job(&mut self, done: Result<FinishedNtt>) -> Result<()> {
        self.job = NttJobState::Done(done?);
        self.input.end(None);
        Ok(())
    }

    /// Waits until the first `end` bytes of the result are computed.
    async fn wait_for_bytes(&mut self, end: u64) -> Result<()> {
        loop {
            let rows = self.rows.progress();
            if self.rows.has_received(0..end) {
                return Ok(());
            }
            let done = match &mut self.job {
                NttJobState::Running(job) => tokio::select! {
                    biased;
                    done = job => done,
                    () = rows => continue,
                },
                NttJobState::Done(_) => {
                    return Err(Error::Internal("the job left out rows".into()));
                }
            };
            self.finish_job(done)?;
        }
    }

    /// Sends the rows in chunks, then the summary. Gives up on a reader that accepts nothing for
    /// the idle timeout.
    pub fn send(mut self) -> ReceiverStream<std::result::Result<v1::NttStreamResponse, Status>> {
        let (sender, receiver) = mpsc::channel(CHUNKS_AHEAD);
        tokio::spawn(async move {
            let idle = self.state.settings.idle_timeout;
            let sent = tokio::select! {
                biased;
                sent = self.send_all(&sender, idle) => sent,
                () = sender.closed() => Err(Error::Cancelled),
            };
            let Err(error) = sent else { return };
            let error = CallError::from(error);
            if let NttJobState::Running(_) = self.job {
                self.fail(&error);
                // The call was counted as successful when the response began.
                call_record::CallRecord::new("ntt_stream").finish(Some(&error));
            }
            let _gone = timeout(idle, sender.send(Err(error.into()))).await;
        });
        ReceiverStream::new(receiver)
    }

    /// Errors: those of the job; `Cancelled` if the reader has gone.
    async fn send_all(&mut self, sender: &RowSender, idle: Duration) -> Result<()> {
        let (begun, len) = (Instant::now(), self.rows.len());
        let give = async |message| {
            let answer = v1::NttStreamResponse { message: Some(message) };
            let given = timeout(idle, sender.send(Ok(answer))).await;
            given.ok().and_then(|given| given.ok()).ok_or(Error::Cancelled)
        };
        for offset in (0..len).step_by(CHUNK_BYTES) {
            let bytes = (len - offset).min(CHUNK_BYTES as u64);
            self.wait_for_bytes(offset + bytes).await?;
            let data = ntt::row_chunk(&self.rows, offset, bytes as usize);
            give(Message::Chunk(v1::Chunk { offset, data })).await?;
            telemetry::sent(bytes);
        }
        if let NttJobState::Running(job) = &mut self.job {
            let done = job.await;
            self.finish_job(done)?;
        }
        if let NttJobState::Done(done) = &self.job {
            let waited = self.input.upload().payload.receive_time_since(self.begun);
            let result = ntt::result(done, waited);
            // If the reader has gone, only the summary is lost.
            let _gone =
                give(Message::Result(response::with_send_time(result, begun.elapsed()))).await;
        }
        Ok(())
    }
}
