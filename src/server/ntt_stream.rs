//! Sends the rows of an NTT to the client while later rows are still computed.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::{
    call::CallContext,
    call_record::CallRecord,
    ntt::{self, AdmittedNtt},
    receive::StreamedUpload,
    response::{self, CHUNK_BYTES},
    status::CallError,
};
use crate::{
    buffer::UploadBuffer,
    error::{Error, Result},
    jobs::{FinishedJob, JobReport, JobTicket},
    telemetry,
    verify::VerifyMode,
    wire::v1::{self, ntt_stream_response::Message},
};

/// Chunks that wait for a slow reader: more would use more memory for it.
const CHUNKS_AHEAD: usize = 8;

pub struct NttStreaming {
    job: NttJobState,
    input: StreamedUpload,
    rows: Arc<UploadBuffer>,
    call_started: Instant,
    idle_timeout: Duration,
    /// Send rows as they are computed; false if they are checked, which needs all of them first.
    sends_early: bool,
}

enum NttJobState {
    Running(JobTicket<JobReport>),
    /// `None` once its summary is sent.
    Done(Option<FinishedJob<JobReport>>),
}

type RowSender = mpsc::Sender<std::result::Result<v1::NttStreamResponse, Status>>;

impl NttStreaming {
    /// Queues `job` at once. Dropping `NttStreaming` cancels it.
    pub fn new(call: &CallContext, job: AdmittedNtt, input: StreamedUpload) -> Self {
        let (rows, sends_early) = (job.rows.clone(), job.job.verify == VerifyMode::None);
        let ticket = job.submit(call, input.upload.payload.clone());
        Self {
            job: NttJobState::Running(ticket),
            input,
            rows,
            call_started: call.started,
            idle_timeout: call.state.settings.idle_timeout,
            sends_early,
        }
    }

    pub fn fail(&mut self, error: &CallError) {
        self.input.end(Some(error));
    }

    /// Waits until all input has arrived and the first rows are computed, or until the job is done.
    pub async fn wait_for_first_rows(&mut self) -> Result<()> {
        let first_bytes = self.rows.len().min(CHUNK_BYTES as u64);
        let (rows, input) = (self.rows.clone(), self.input.upload.payload.clone());
        loop {
            let (rows_progress, input_progress) = (rows.progress(), input.progress());
            let can_send =
                self.sends_early && input.is_complete() && rows.has_received(0..first_bytes);
            if can_send || matches!(self.job, NttJobState::Done(_)) {
                return Ok(());
            }
            let progress = async {
                tokio::select! { biased; () = rows_progress => {}, () = input_progress => {} }
            };
            self.wait_for_job_or(progress).await?;
        }
    }

    /// Waits until the first `end` bytes of the result are computed.
    async fn wait_for_bytes(&mut self, end: u64) -> Result<()> {
        let rows = self.rows.clone();
        loop {
            let progress = rows.progress();
            if rows.has_received(0..end) {
                return Ok(());
            }
            if let NttJobState::Done(_) = self.job {
                return Err(Error::Internal("the job left out rows".into()));
            }
            self.wait_for_job_or(progress).await?;
        }
    }

    /// Waits for the end of the job, which ends its input, or for `progress`.
    async fn wait_for_job_or(&mut self, progress: impl Future<Output = ()>) -> Result<()> {
        if let NttJobState::Running(job) = &mut self.job {
            let finished = tokio::select! {
                biased;
                finished = job => finished?,
                () = progress => return Ok(()),
            };
            self.job = NttJobState::Done(Some(finished));
            self.input.end(None);
        }
        Ok(())
    }

    /// Sends the rows in chunks, then the summary. Gives up on a reader that accepts nothing for
    /// the idle timeout.
    pub fn send(mut self) -> ReceiverStream<std::result::Result<v1::NttStreamResponse, Status>> {
        let (sender, receiver) = mpsc::channel(CHUNKS_AHEAD);
        tokio::spawn(async move {
            let sent = tokio::select! {
                biased;
                sent = self.send_all(&sender) => sent,
                () = sender.closed() => Err(Error::Cancelled),
            };
            let Err(error) = sent else { return };
            let error = CallError::from(error);
            if let NttJobState::Running(_) = self.job {
                self.fail(&error);
                // The call was counted as successful when the response began.
                CallRecord::new("ntt_stream").finish(Some(&error));
            }
            let _gone = timeout(self.idle_timeout, sender.send(Err(error.into()))).await;
        });
        ReceiverStream::new(receiver)
    }

    /// Errors: those of the job; `Cancelled` if the reader has gone.
    async fn send_all(&mut self, sender: &RowSender) -> Result<()> {
        let (send_started, len, idle) = (Instant::now(), self.rows.len(), self.idle_timeout);
        let send = async |message| {
            let response = v1::NttStreamResponse { message: Some(message) };
            let sent = timeout(idle, sender.send(Ok(response))).await;
            sent.ok().and_then(|sent| sent.ok()).ok_or(Error::Cancelled)
        };
        for offset in (0..len).step_by(CHUNK_BYTES) {
            let bytes = (len - offset).min(CHUNK_BYTES as u64);
            self.wait_for_bytes(offset + bytes).await?;
            let data = response::zeroized_bytes(self.rows.copy(offset, bytes as usize));
            send(Message::Chunk(v1::Chunk { offset, data })).await?;
            telemetry::sent(bytes);
        }
        self.wait_for_job_or(std::future::pending()).await?;
        if let NttJobState::Done(finished) = &mut self.job
            && let Some(finished) = finished.take()
        {
            let payload = &self.input.upload.payload;
            let result = ntt::result(finished, payload.receive_time_since(self.call_started));
            let result = response::with_send_time(result, send_started.elapsed());
            // If the reader has gone, only the summary is lost.
            let _gone = send(Message::Result(result)).await;
        }
        Ok(())
    }
}
