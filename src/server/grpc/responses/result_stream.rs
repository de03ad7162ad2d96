//! Sends the vectors that a job computes to the client, while later ones are still computed, and
//! points that are known early.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::FutureExt;
use tokio::sync::{Notify, mpsc::UnboundedReceiver};

use super::{
    response::CHUNK_BYTES,
    response_queue::{ReaderPatience, ResponseSender, ResponseStream, response_queue},
};
use crate::grpc::{
    calls::{
        call::CallContext,
        call_record::{CallName, CallRecord},
        status::CallError,
    },
    requests::{receive, streamed_uploads::StreamedUploads},
};
use crate::{
    buffer::{ProgressListener, UploadBuffer},
    error::{EngineError, Error, Result},
    jobs::{FinishedJob, JobTicket, PointsOfOutput},
    telemetry,
    verify::Verification,
    wire::v1,
};

/// Maximum number of chunks queued for a slow reader. They share the memory of their payload, and
/// are dropped if the reader takes none for the idle timeout.
const CHUNKS_AHEAD: usize = 8;

/// Points that the job sends before its end, and the messages that carry them.
pub struct EarlyMessages<T> {
    pub points: UnboundedReceiver<PointsOfOutput>,
    pub message: fn(PointsOfOutput) -> T,
}

impl<T> EarlyMessages<T> {
    /// The next message; `None` if there will be none.
    pub async fn next(&mut self) -> Option<T> {
        self.points.recv().await.map(self.message)
    }
}

/// What a call answers with: chunks of vectors and early points, then a summary.
pub trait StreamedResult: Send + 'static {
    type JobOutput: Send + 'static;
    type Response: Send + 'static;

    /// The name of the call in metrics.
    const OP: &'static str;

    /// Called once when the job has succeeded, before the summary is sent.
    fn conclude(&mut self) -> Result<()> {
        Ok(())
    }

    /// A chunk of the vector that is output number `output`.
    fn chunk(&self, output: u32, chunk: v1::Chunk) -> Self::Response;

    fn summary(&self, finished: FinishedJob<Self::JobOutput>, times: StreamTimes)
    -> Self::Response;
}

/// A vector to send.
pub struct SentVector {
    /// Index among the outputs of the call.
    pub output: u32,
    pub payload: Arc<UploadBuffer>,
}

pub struct StreamTimes {
    /// From the start of the call to the last input byte.
    pub receive: Duration,
    /// From the first chunk to the summary; zero without chunks.
    pub send: Duration,
}

/// A job whose results are sent. Dropping it cancels the job.
pub struct ResultStream<R: StreamedResult> {
    result: R,
    job: JobState<R::JobOutput>,
    input: StreamedUploads,
    vectors: Vec<SentVector>,
    early: Option<EarlyMessages<R::Response>>,
    /// Early messages to send.
    ready: VecDeque<R::Response>,
    call_started: Instant,
    name: CallName,
    patience: ReaderPatience,
    /// Send chunks as they are computed; false if they are checked, which needs all of them first.
    sends_early: bool,
    /// Notified when bytes of inputs or results arrive.
    progress: Arc<Notify>,
    _listener: Arc<ProgressListener>,
}

enum JobState<T> {
    Running(JobTicket<T>),
    /// `None` once its summary is sent.
    Done(Option<FinishedJob<T>>),
}

impl<R: StreamedResult> ResultStream<R> {
    pub fn new(
        call: &CallContext,
        result: R,
        verify: Verification,
        vectors: Vec<SentVector>,
        input: StreamedUploads,
        job: JobTicket<R::JobOutput>,
    ) -> Self {
        let progress = Arc::new(Notify::new());
        let notified = progress.clone();
        let listener: Arc<ProgressListener> = Arc::new(move || notified.notify_one());
        let payloads = vectors.iter().map(|vector| &vector.payload);
        payloads.chain(input.payloads()).for_each(|payload| payload.listen(&listener));
        Self {
            result,
            job: JobState::Running(job),
            input,
            vectors,
            early: None,
            ready: VecDeque::new(),
            call_started: call.started,
            name: call.name(),
            patience: ReaderPatience::of(call),
            sends_early: verify == Verification::None,
            progress,
            _listener: listener,
        }
    }

    /// Sends these messages, too.
    pub fn with_early_messages(self, early: Option<EarlyMessages<R::Response>>) -> Self {
        Self { early, ..self }
    }

    /// Receives `pieces` of the input until the job has a result to send, then begins to send.
    ///
    /// Errors: those of the job and of `pieces`.
    pub async fn send_after(
        mut self,
        pieces: impl Future<Output = std::result::Result<(), CallError>>,
    ) -> std::result::Result<ResponseStream<R::Response>, CallError> {
        let begun = receive::receive_during_job(pieces, self.wait_for_first_message()).await;
        if let Err(error) = begun {
            self.input.end(Some(&error));
            return Err(error);
        }
        Ok(self.send())
    }

    /// Waits until all input has arrived and the first message is ready, or until the job is done.
    async fn wait_for_first_message(&mut self) -> Result<()> {
        let first = self.vectors.first().filter(|_| self.sends_early);
        let first = first.map(|vector| vector.payload.clone());
        loop {
            let has_chunk = first.as_ref().is_some_and(|payload| {
                payload.has_received(0..payload.len().min(CHUNK_BYTES as u64))
            });
            let can_send = self.input.is_complete() && (has_chunk || !self.ready.is_empty());
            if can_send || matches!(self.job, JobState::Done(_)) {
                return Ok(());
            }
            self.wait_for_job_or_progress().await?;
        }
    }

    /// Waits until the first `end` bytes of a vector are computed.
    async fn wait_for_bytes(
        &mut self,
        payload: &UploadBuffer,
        end: u64,
        sender: &ResponseSender<R::Response>,
    ) -> Result<()> {
        while !payload.has_received(0..end) {
            if let JobState::Done(_) = self.job {
                return Err(Error::internal("the job left out elements"));
            }
            self.wait_for_job_or_progress().await?;
            self.send_ready(sender).await?;
        }
        Ok(())
    }

    /// Waits for the end of the job, for progress, or for an early message.
    async fn wait_for_job_or_progress(&mut self) -> Result<()> {
        let progress = self.progress.clone();
        // The job's future borrows all of `self`.
        let mut early = self.early.take();
        let concluded = tokio::select! {
            biased;
            concluded = self.wait_for_job() => concluded,
            Some(message) = async { early.as_mut()?.next().await } => {
                self.ready.push_back(message);
                Ok(())
            }
            () = progress.notified() => Ok(()),
        };
        self.early = early;
        concluded
    }

    async fn send_ready(&mut self, sender: &ResponseSender<R::Response>) -> Result<()> {
        while let Some(message) = self.ready.pop_front() {
            sender.send(message).await?;
        }
        Ok(())
    }

    /// Waits for the end of the job, which ends its input.
    async fn wait_for_job(&mut self) -> Result<()> {
        if let JobState::Running(job) = &mut self.job {
            let finished = job.await?;
            self.result.conclude()?;
            self.job = JobState::Done(Some(finished));
            self.input.end(None);
        }
        Ok(())
    }

    /// Sends the vectors in chunks, then the summary. Gives up on a reader that accepts nothing for
    /// the idle timeout or until the deadline.
    fn send(mut self) -> ResponseStream<R::Response> {
        let (sender, stream) = response_queue(CHUNKS_AHEAD, self.patience);
        let mut sending = Box::pin(async move {
            let sent = tokio::select! {
                biased;
                sent = self.send_all(&sender) => sent,
                () = sender.closed() => Err(Error::CANCELLED),
            };
            // The call was counted as successful when the response began.
            let name = self.name.clone();
            let count =
                |error: &CallError| CallRecord::new(R::OP, name.clone()).finish(Some(error));
            let is_running = matches!(self.job, JobState::Running(_));
            if is_running && let Err(error) = &sent {
                let error = CallError::from(error.clone());
                self.input.end(Some(&error));
                count(&error);
            }
            drop(self);
            let finished = sender.finish(sent).await;
            if !is_running
                && let Err(error @ Error::Engine(EngineError::Idle(_) | EngineError::Deadline)) =
                    finished
            {
                count(&error.into());
            }
        });
        // The first messages are queued at once, so that they leave together with the headers.
        if sending.as_mut().now_or_never().is_none() {
            tokio::spawn(sending);
        }
        stream
    }

    /// Errors: those of the job and of [`ResponseSender::send`].
    async fn send_all(&mut self, sender: &ResponseSender<R::Response>) -> Result<()> {
        self.send_ready(sender).await?;
        let mut send_started = None;
        for SentVector { output, payload } in std::mem::take(&mut self.vectors) {
            send_started.get_or_insert_with(Instant::now);
            let len = payload.len();
            for offset in (0..len).step_by(CHUNK_BYTES) {
                let bytes = (len - offset).min(CHUNK_BYTES as u64);
                self.wait_for_bytes(&payload, offset + bytes, sender).await?;
                let data = payload.bytes(offset, bytes as usize);
                sender.send(self.result.chunk(output, v1::Chunk { offset, data })).await?;
                telemetry::SENT_BYTES_TOTAL.add(bytes);
            }
        }
        while let JobState::Running(_) = self.job {
            self.wait_for_job_or_progress().await?;
            self.send_ready(sender).await?;
        }
        if let JobState::Done(finished) = &mut self.job
            && let Some(finished) = finished.take()
        {
            let receive = self.input.receive_time_since(self.call_started);
            let send = send_started.as_ref().map_or(Duration::ZERO, Instant::elapsed);
            let times = StreamTimes { receive, send };
            sender.send(self.result.summary(finished, times)).await?;
        }
        Ok(())
    }
}
