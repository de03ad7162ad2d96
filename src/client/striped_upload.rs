//! Uploads over several connections: one stream on each (a lane), resumed if it breaks.

use std::{future, ops::Range, pin::pin, time::Duration};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, sleep};

use super::{
    Client,
    call::{CallBudget, CallDeadline, CallFuture},
    error::{ClientError, Result},
    release::ReleaseOnDrop,
    types::UploadKey,
    upload::ChunkQueue,
};
use crate::{
    error::Reason,
    wire::v1::{self, put_request::Message, stat_response::Status},
};

/// How long a failed lane waits for a more specific error of another lane: if a job fails, its
/// stripes fail too, possibly first.
const CAUSE_WAIT: Duration = Duration::from_millis(200);
/// How often one lane is reopened while the others continue.
const LANE_RETRIES: u32 = 3;
/// Delay before a broken lane is reopened.
const LANE_PAUSE: Duration = Duration::from_millis(20);

/// One of the streams that carry an upload.
#[derive(Clone, Copy)]
pub(crate) struct UploadLane {
    pub number: usize,
    pub upload_id: UploadKey,
    /// Number of streams that carry the upload.
    pub streams: u32,
}

/// The header of an upload, without the fields that [`UploadLane`] has.
#[derive(Clone)]
pub(crate) enum PutHeader {
    Bases(v1::BasesUpload),
    Vector(v1::VectorUpload),
}

impl PutHeader {
    fn message(&self, lane: UploadLane) -> v1::PutRequest {
        let UploadLane { upload_id, streams, .. } = lane;
        let upload_id = upload_id.to_bytes();
        let message = match self.clone() {
            Self::Bases(bases) => Message::Bases(v1::BasesUpload { upload_id, streams, ..bases }),
            Self::Vector(vector) => {
                Message::Vector(v1::VectorUpload { upload_id, streams, ..vector })
            }
        };
        v1::PutRequest { message: Some(message) }
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
        header: PutHeader,
        id: UploadKey,
        upload: &'a ChunkQueue<'_>,
        call: &'a mut CallBudget,
    ) -> CallFuture<'a, v1::PutResponse> {
        Box::pin(async move {
            let deadline = call.deadline;
            let run = |lane| self.run_lane(lane, &header, upload, deadline);
            self.upload_over_lanes(id, upload, call, run).await
        })
    }

    /// Runs the streams of an upload until one has the response; resumes the upload if it breaks.
    pub(crate) async fn upload_over_lanes<T, F: Future<Output = Result<T>>>(
        &self,
        mut id: UploadKey,
        upload: &ChunkQueue<'_>,
        call: &mut CallBudget,
        run_lane: impl Fn(UploadLane) -> F,
    ) -> Result<T> {
        let mut lanes = self.lane_count(upload.len());
        // If a job is refused, another lane may already have opened the upload.
        let mut guard = ReleaseOnDrop::new(self, id);
        loop {
            let streams = u32::try_from(lanes).unwrap_or(u32::MAX);
            let lane = |number| run_lane(UploadLane { number, upload_id: id, streams });
            let response = first_response((0..lanes).map(lane).collect());
            let error = match call.deadline.until_deadline(response).await {
                Ok(response) => {
                    // The upload is complete, or ended with its job.
                    guard.disarm();
                    return Ok(response);
                }
                Err(error) => error,
            };
            call.wait_before_retry(error).await?;
            lanes = self.resume(&mut id, upload, call).await?;
            guard.set_id(id);
        }
    }

    /// Prepares a broken upload to continue with its missing ranges, or to restart under another id
    /// if the server has none of it. Returns how many lanes to use.
    ///
    /// A resumed upload uses one lane: the server has counted the streams that ended, so a new
    /// stream that ends before another one begins would look like the last.
    async fn resume(
        &self,
        id: &mut UploadKey,
        upload: &ChunkQueue<'_>,
        call: &mut CallBudget,
    ) -> Result<usize> {
        let status = loop {
            match self.upload_status(*id, call.deadline).await {
                Ok(status) => break status,
                // The cause of the break may persist.
                Err(error) => call.wait_before_retry(error).await?,
            }
        };
        match status {
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
        lane: UploadLane,
        header: &PutHeader,
        upload: &ChunkQueue<'_>,
        deadline: CallDeadline,
    ) -> Result<v1::PutResponse> {
        let mut taken = Vec::new();
        let mut retries_left = LANE_RETRIES;
        loop {
            let first = upload.next(&mut taken);
            if first.is_none() && lane.number > 0 {
                return future::pending().await;
            }
            let wrap = |chunk| v1::PutRequest { message: Some(Message::Chunk(chunk)) };
            let mut store = self.store_on(lane.number);
            let put = async |stream| Ok(store.put(deadline.request(stream)).await?.into_inner());
            let header = header.message(lane);
            let error = match upload.stream(header, first, wrap, &mut taken, put).await {
                Ok(response) => return Ok(response),
                Err(error @ ClientError::ConnectionLost(_)) if retries_left > 0 => error,
                Err(error) => return Err(error),
            };
            retries_left -= 1;
            sleep(LANE_PAUSE).await;
            match self.upload_status(lane.upload_id, deadline).await {
                Ok(UploadStatus::Missing(missing)) => upload.requeue(&mut taken, &missing),
                Ok(UploadStatus::Complete) => taken.clear(),
                // The lane cannot resume by itself; the caller resumes the whole upload.
                Ok(UploadStatus::Unknown) | Err(_) => return Err(error),
            }
        }
    }

    /// Asks the server what it has received of upload `id`.
    async fn upload_status(&self, id: UploadKey, deadline: CallDeadline) -> Result<UploadStatus> {
        let id = v1::stat_request::Id::UploadId(id.to_bytes());
        let request = deadline.request(v1::StatRequest { id: Some(id) });
        let stat = match deadline.response(self.store().stat(request)).await {
            Ok(stat) => stat,
            Err(error) if error.is_not_found() => return Ok(UploadStatus::Unknown),
            Err(error) => return Err(error),
        };
        match stat.status {
            Some(Status::Object(_)) => Ok(UploadStatus::Complete),
            Some(Status::Upload(progress)) => {
                let missing = progress.missing.into_iter();
                Ok(UploadStatus::Missing(missing.map(|range| range.start..range.end).collect()))
            }
            None => Err(ClientError::invalid_response("the status is empty")),
        }
    }
}

/// The first response of any lane, or the most specific error.
async fn first_response<T, F: Future<Output = Result<T>>>(
    mut lanes: FuturesUnordered<F>,
) -> Result<T> {
    let mut first_error: Option<ClientError> = None;
    let mut cause_wait = pin!(sleep(CAUSE_WAIT));
    loop {
        let next = tokio::select! {
            biased;
            next = lanes.next() => next,
            () = &mut cause_wait, if first_error.is_some() => None,
        };
        match next {
            Some(Ok(response)) => return Ok(response),
            Some(Err(error)) if is_cause(&error) => return Err(error),
            Some(Err(error)) => {
                first_error.get_or_insert_with(|| {
                    cause_wait.as_mut().reset(Instant::now() + CAUSE_WAIT);
                    error
                });
            }
            None => {
                let none = ClientError::invalid_response("no response");
                return Err(first_error.unwrap_or(none));
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
