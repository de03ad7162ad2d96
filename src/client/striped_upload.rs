//! Uploads over several connections: one stream on each (a lane), resumed if it breaks.

use std::{future::Future, ops::Range, pin::pin, time::Duration};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, sleep};

use super::{
    Client,
    call::{CallBudget, CallFuture},
    error::{ClientError, Result},
    types::UploadKey,
    upload::ChunkQueue,
    vectors::ReleaseOnDrop,
};
use crate::{error::Reason, wire::v1};

/// How long a failed lane waits for a more specific error of another lane: if a job fails, its
/// stripes fail too, possibly first.
const CAUSE_WAIT: Duration = Duration::from_millis(200);
/// How often one lane is reopened while the others continue.
const LANE_RETRIES: u32 = 3;
/// Delay before a broken lane is reopened.
const LANE_PAUSE: Duration = Duration::from_millis(20);

/// The header of an upload, which each of its `Store.Put` streams repeats.
#[derive(Clone)]
pub(crate) enum PutHeader {
    Bases(v1::BasesUpload),
    Vector(v1::VectorUpload),
}

impl PutHeader {
    fn message(&self) -> v1::PutRequest {
        use v1::put_request::Message;
        let message = match self.clone() {
            Self::Bases(bases) => Message::Bases(bases),
            Self::Vector(vector) => Message::Vector(vector),
        };
        v1::PutRequest { message: Some(message) }
    }

    fn set_upload(&mut self, id: UploadKey, streams: usize) {
        let id = id.0.to_vec().into();
        let streams = u32::try_from(streams).unwrap_or(u32::MAX);
        match self {
            Self::Bases(bases) => (bases.upload_id, bases.streams) = (id, streams),
            Self::Vector(vector) => (vector.upload_id, vector.streams) = (id, streams),
        }
    }
}

/// How much of an upload the server has received.
enum UploadStatus {
    Unknown,
    Missing(Vec<Range<u64>>),
    Complete,
}

impl Client {
    /// Uploads a whole payload; resumes the upload if it breaks.
    pub(crate) fn put_payload<'a>(
        &'a self,
        mut header: PutHeader,
        mut id: UploadKey,
        upload: &'a ChunkQueue<'_>,
        call: &'a mut CallBudget,
    ) -> CallFuture<'a, v1::PutResponse> {
        Box::pin(async move {
            let mut lanes = self.lane_count(upload.len());
            let mut guard = ReleaseOnDrop::new(self, id);
            loop {
                header.set_upload(id, lanes);
                let header = &header;
                let streams = (0..lanes).map(|lane| self.run_lane(lane, header, id, upload, call));
                let error = match call.until_deadline(first_response(streams.collect())).await {
                    Ok(answer) => {
                        guard.disarm();
                        return Ok(answer);
                    }
                    Err(error) => error,
                };
                call.wait_before_retry(error).await?;
                lanes = self.resume(&mut id, upload, call).await?;
                guard.set_id(id);
            }
        })
    }

    /// Prepares a broken upload to continue with its missing ranges, or to restart under another id
    /// if the server has none of it. Returns how many lanes to use.
    ///
    /// A resumed upload uses one lane: the server has counted the streams that ended, so a new
    /// stream that ends before another one begins would look like the last.
    pub(crate) async fn resume(
        &self,
        id: &mut UploadKey,
        upload: &ChunkQueue<'_>,
        call: &mut CallBudget,
    ) -> Result<usize> {
        let arrived = loop {
            match self.upload_status(*id, call).await {
                Ok(arrived) => break arrived,
                // The cause of the break may persist.
                Err(error) => call.wait_before_retry(error).await?,
            }
        };
        match arrived {
            UploadStatus::Missing(missing) => upload.reset_to(missing),
            // Complete: the server responds to the header alone.
            UploadStatus::Complete => upload.reset_to(Vec::new()),
            UploadStatus::Unknown => {
                upload.reset_to(std::iter::once(0..upload.len()).collect());
                *id = UploadKey::random()?;
                return Ok(self.lane_count(upload.len()));
            }
        }
        Ok(1)
    }

    /// Runs one `Store.Put` stream that carries a part of the payload. If the stream breaks, it is
    /// reopened while the other lanes continue.
    ///
    /// Except for the first, a lane opens its stream only with a chunk in hand: the upload cannot
    /// complete without that chunk, so no late stream can begin the upload anew. A lane without a
    /// chunk stays pending.
    pub(crate) async fn run_lane(
        &self,
        lane: usize,
        header: &PutHeader,
        id: UploadKey,
        upload: &ChunkQueue<'_>,
        call: &CallBudget,
    ) -> Result<v1::PutResponse> {
        let mut taken = Vec::new();
        let mut retries_left = LANE_RETRIES;
        loop {
            let first = upload.next(&mut taken);
            if first.is_none() && lane > 0 {
                return std::future::pending().await;
            }
            let wrap =
                |chunk| v1::PutRequest { message: Some(v1::put_request::Message::Chunk(chunk)) };
            let mut store = self.store_on(lane);
            let put = async |stream| {
                let answer = store.put(call.request(stream)).await;
                Ok(answer?.into_inner())
            };
            let error = match upload.stream(header.message(), first, wrap, &mut taken, put).await {
                Ok(answer) => return Ok(answer),
                Err(error @ ClientError::ConnectionLost(_)) if retries_left > 0 => error,
                Err(error) => return Err(error),
            };
            retries_left -= 1;
            sleep(LANE_PAUSE).await;
            match self.upload_status(id, call).await {
                Ok(UploadStatus::Missing(missing)) => upload.requeue(&mut taken, &missing),
                Ok(UploadStatus::Complete) => taken.clear(),
                // The lane cannot resume by itself; the caller resumes the whole upload.
                Ok(UploadStatus::Unknown) | Err(_) => return Err(error),
            }
        }
    }

    /// Asks the server what it has received of upload `id`.
    async fn upload_status(&self, id: UploadKey, call: &CallBudget) -> Result<UploadStatus> {
        let id = v1::stat_request::Id::UploadId(id.0.to_vec().into());
        let request = call.request(v1::StatRequest { id: Some(id) });
        let stat = match call.response(self.store().stat(request)).await {
            Ok(stat) => stat,
            Err(error) if error.is_not_found() => return Ok(UploadStatus::Unknown),
            Err(error) => return Err(error),
        };
        Ok(match stat.status {
            Some(v1::stat_response::Status::Object(_)) => UploadStatus::Complete,
            Some(v1::stat_response::Status::Upload(progress)) => {
                let missing = progress.missing.into_iter();
                UploadStatus::Missing(missing.map(|range| range.start..range.end).collect())
            }
            None => return Err(ClientError::invalid_response("the status is empty")),
        })
    }
}

/// The first response of any lane, or the most specific error.
pub(crate) async fn first_response<T, F>(mut lanes: FuturesUnordered<F>) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let mut failed: Option<ClientError> = None;
    let mut reason_wait = pin!(sleep(CAUSE_WAIT));
    loop {
        let next = tokio::select! {
            biased;
            next = lanes.next() => next,
            () = &mut reason_wait, if failed.is_some() => None,
        };
        match (next, failed.take()) {
            (Some(Ok(answer)), _) => return Ok(answer),
            (Some(Err(error)), _) if is_cause(&error) => return Err(error),
            (Some(Err(error)), None) => {
                reason_wait.as_mut().reset(Instant::now() + CAUSE_WAIT);
                failed = Some(error);
            }
            (Some(Err(_)), first) => failed = first,
            (None, first) => {
                return Err(first.unwrap_or(ClientError::invalid_response("no response")));
            }
        }
    }
}

/// Whether the error is a cause, rather than a consequence of another lane's error.
fn is_cause(error: &ClientError) -> bool {
    !matches!(error, ClientError::ConnectionLost(_))
        && !error.reason_text().is_empty()
        && error.reason() != Some(Reason::Cancelled)
}
