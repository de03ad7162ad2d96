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
    State,
    answer::{self, CHUNK_BYTES},
    call::Call,
    ntt::{self, NttCall, NttDone},
    observe,
    receive::JobInput,
};
use crate::{
    buffer::Arrival,
    error::{Error, Result},
    jobs::NttCheck,
    telemetry,
    wire::v1::{self, ntt_stream_response::Message},
};

/// Chunks that wait for a slow reader: more would use more memory for it.
const SEND_AHEAD: usize = 8;

/// An NTT job with its input and its result rows.
pub struct Following {
    job: Job,
    state: Arc<State>,
    input: JobInput,
    /// When the call began.
    begun: Instant,
    rows: Arc<Arrival>,
    /// Send rows as they are computed; false if they are checked, which needs all of them first.
    sends_early: bool,
}

enum Job {
    Running(BoxFuture<'static, Result<NttDone>>),
    Done(NttDone),
}

/// The sending half of the response stream.
type Sender = mpsc::Sender<std::result::Result<v1::NttStreamResponse, Status>>;

impl Following {
    /// Queues `job` at once. Dropping `Following` cancels it.
    pub fn new(call: &Call, job: NttCall, input: JobInput) -> Self {
        let (rows, early) = (job.rows().clone(), job.check() == NttCheck::None);
        let job = Job::Running(Box::pin(job.submit(call, input.upload().payload.clone())));
        Self { job, state: call.state.clone(), input, begun: call.started, rows, sends_early: early }
    }

    /// Ends the input because the call has failed.
    pub fn fail(&mut self, status: &Status) {
        self.input.end(Some(status));
    }

    /// Waits until all input has arrived and the first rows are computed, or until the job is done.
    ///
    /// Errors: those of the job.
    pub async fn begin(&mut self) -> Result<()> {
        let first = self.rows.len().min(CHUNK_BYTES as u64);
        let input = self.input.upload().clone();
        loop {
            let (rows, more) = (self.rows.progress(), input.payload.progress());
            let there = self.sends_early && input.payload.is_complete() && self.rows.has(0..first);
            let done = match &mut self.job {
                Job::Running(job) if !there => tokio::select! {
                    biased;
                    done = job => done,
                    () = rows => continue,
                    () = more => continue,
                },
                _ => return Ok(()),
            };
            self.done(done)?;
        }
    }

    /// Records the end of the job and ends its input.
    fn done(&mut self, done: Result<NttDone>) -> Result<()> {
        self.job = Job::Done(done?);
        self.input.end(None);
        Ok(())
    }

    /// Waits until the first `end` bytes of the result are computed.
    async fn until(&mut self, end: u64) -> Result<()> {
        loop {
            let rows = self.rows.progress();
            if self.rows.has(0..end) {
                return Ok(());
            }
            let done = match &mut self.job {
                Job::Running(job) => tokio::select! {
                    biased;
                    done = job => done,
                    () = rows => continue,
                },
                Job::Done(_) => return Err(Error::Internal("the job left out rows".into())),
            };
            self.done(done)?;
        }
    }

    /// Sends the rows in chunks, then the summary. Gives up on a reader that accepts nothing for
    /// the idle timeout.
    pub fn send(mut self) -> ReceiverStream<std::result::Result<v1::NttStreamResponse, Status>> {
        let (sender, receiver) = mpsc::channel(SEND_AHEAD);
        tokio::spawn(async move {
            let idle = self.state.settings.idle_timeout;
            let sent = tokio::select! {
                biased;
                sent = self.all(&sender, idle) => sent,
                () = sender.closed() => Err(Error::Cancelled),
            };
            let Err(error) = sent else { return };
            let status = Status::from(error);
            if let Job::Running(_) = self.job {
                self.fail(&status);
                // The call was counted as successful when the response began.
                observe::Record::new("ntt_stream").finish(Some(&status));
            }
            let _gone = timeout(idle, sender.send(Err(status))).await;
        });
        ReceiverStream::new(receiver)
    }

    /// Errors: those of the job; `Cancelled` if the reader has gone.
    async fn all(&mut self, sender: &Sender, idle: Duration) -> Result<()> {
        let (begun, len) = (Instant::now(), self.rows.len());
        let give = async |message| {
            let answer = v1::NttStreamResponse { message: Some(message) };
            let given = timeout(idle, sender.send(Ok(answer))).await;
            given.ok().and_then(|given| given.ok()).ok_or(Error::Cancelled)
        };
        for offset in (0..len).step_by(CHUNK_BYTES) {
            let bytes = (len - offset).min(CHUNK_BYTES as u64);
            self.until(offset + bytes).await?;
            let data = ntt::piece(&self.rows, offset, bytes as usize);
            give(Message::Chunk(v1::Chunk { offset, data })).await?;
            telemetry::sent(bytes);
        }
        if let Job::Running(job) = &mut self.job {
            let done = job.await;
            self.done(done)?;
        }
        if let Job::Done(done) = &self.job {
            let waited = self.input.upload().payload.waited_since(self.begun);
            let result = ntt::result(done, waited);
            // If the reader has gone, only the summary is lost.
            let _gone = give(Message::Result(answer::with_send(result, begun.elapsed()))).await;
        }
        Ok(())
    }
}
