//! Uploads over several connections: one stream on each (a lane), resumed if it breaks.

use std::{future, iter, ops::Range, pin::pin, sync::Arc, time::Duration};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, sleep};

use super::{
    Client,
    call::{CallBudget, CallDeadline, CallFuture},
    error::{ClientError, Result},
    frames,
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
const LANE_PAUSE: Duration = Duration::from_millis(20);

/// One of the streams that carry the uploads of a call. Lane 0 of upload 0 is the call's own
/// stream, which can carry all of them.
#[derive(Clone)]
pub(crate) struct UploadLane {
    pub upload: usize,
    pub number: usize,
    /// Id and number of streams of each upload of the call.
    pub streams: Arc<[UploadStripes]>,
}

impl UploadLane {
    pub fn streams(&self) -> UploadStripes {
        self.streams[self.upload]
    }
}

/// The id of an upload, and the number of streams that carry it.
#[derive(Clone, Copy)]
pub(crate) struct UploadStripes {
    pub id: UploadKey,
    pub count: u32,
}

/// One of the uploads of a call.
struct CallUpload<'a> {
    queue: &'a ChunkQueue<'a>,
    streams: UploadStripes,
    /// If a job is refused, another lane may already have opened the upload.
    guard: ReleaseOnDrop,
}

/// The header of an upload, without the fields that [`UploadLane`] has.
#[derive(Clone)]
pub(crate) enum PutHeader {
    Bases(v1::BasesUpload),
    Matrix(v1::MatrixUpload),
    Vector(v1::VectorUpload),
}

impl PutHeader {
    fn message(&self, upload: UploadStripes) -> v1::PutRequest {
        let (upload_id, streams) = (upload.id.to_bytes(), upload.count);
        let message = match self.clone() {
            Self::Bases(put) => Message::Bases(v1::BasesUpload { upload_id, streams, ..put }),
            Self::Matrix(put) => Message::Matrix(v1::MatrixUpload { upload_id, streams, ..put }),
            Self::Vector(put) => Message::Vector(v1::VectorUpload { upload_id, streams, ..put }),
        };
        v1::PutRequest { message: Some(message) }
    }
}

impl<'a> CallUpload<'a> {
    fn new(client: &Client, id: UploadKey, queue: &'a ChunkQueue<'a>) -> Self {
        let streams = UploadStripes { id, count: client.lane_count(queue.len()) };
        Self { queue, streams, guard: ReleaseOnDrop::new(client, id) }
    }

    /// Sends what is `missing`; all of it under a new id if the server does not know the upload.
    fn resume(&mut self, client: &Client, missing: Option<Vec<Range<u64>>>) -> Result<()> {
        let Some(missing) = missing else {
            let id = UploadKey::random()?;
            self.queue.reset_to(iter::once(0..self.queue.len()).collect());
            self.streams = UploadStripes { id, count: client.lane_count(self.queue.len()) };
            self.guard.id = Some(id);
            return Ok(());
        };
        self.queue.reset_to(missing);
        // The server has counted the streams that ended: of several new ones, one that ends before
        // another begins would look like the last.
        self.streams.count = 1;
        Ok(())
    }
}

impl Client {
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
            self.upload_over_lanes(vec![id], &[upload], call, run).await
        })
    }

    /// Runs a call's streams until one has the response. A broken upload continues with its missing
    /// ranges, or restarts under another id if the server has none of it.
    pub(crate) async fn upload_over_lanes<T, F: Future<Output = Result<T>>>(
        &self,
        ids: Vec<UploadKey>,
        queues: &[&ChunkQueue<'_>],
        call: &mut CallBudget,
        run_lane: impl Fn(UploadLane) -> F,
    ) -> Result<T> {
        let uploads = ids.into_iter().zip(queues);
        let mut uploads: Vec<_> =
            uploads.map(|(id, queue)| CallUpload::new(self, id, queue)).collect();
        loop {
            let streams: Arc<[_]> = uploads.iter().map(|upload| upload.streams).collect();
            let lane =
                |upload, number| run_lane(UploadLane { upload, number, streams: streams.clone() });
            let further = streams.iter().enumerate().flat_map(|(upload, streams)| {
                (1..streams.count as usize).map(move |number| (upload, number))
            });
            let further = further.map(|(upload, number)| lane(upload, number));
            let response = first_response(iter::once(lane(0, 0)).chain(further).collect());
            match call.deadline.until_deadline(response).await {
                Ok(response) => {
                    // The uploads are complete, or ended with their job.
                    uploads.iter_mut().for_each(|upload| upload.guard.id = None);
                    return Ok(response);
                }
                Err(error) => call.wait_before_retry(error).await?,
            }
            for upload in &mut uploads {
                let missing = loop {
                    match self.missing_ranges(upload.streams.id, call.deadline).await {
                        Ok(missing) => break missing,
                        // The cause of the break may persist.
                        Err(error) => call.wait_before_retry(error).await?,
                    }
                };
                upload.resume(self, missing)?;
            }
        }
    }

    /// Runs one `Store.Put` stream that carries a part of the payload. If the stream breaks, it is
    /// reopened while the other lanes continue.
    ///
    /// Except for the first, a lane opens its stream only with a chunk in hand: the upload cannot
    /// complete without that chunk, so no late stream can restart the upload. A lane without a
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
            let put = async |stream| {
                let request = frames::send(deadline.request(stream));
                Ok(store.put(request).await?.into_inner())
            };
            let header = header.message(lane.streams());
            let error = match upload.stream(header, first, wrap, &mut taken, put).await {
                Ok(response) => return Ok(response),
                Err(error @ ClientError::ConnectionLost(_)) if retries_left > 0 => error,
                Err(error) => return Err(error),
            };
            retries_left -= 1;
            sleep(LANE_PAUSE).await;
            match self.missing_ranges(lane.streams().id, deadline).await {
                Ok(Some(missing)) => upload.requeue(&mut taken, &missing),
                // The lane cannot resume by itself; the caller resumes the whole upload.
                Ok(None) | Err(_) => return Err(error),
            }
        }
    }

    /// The ranges of upload `id` that the server has not received: none of a complete upload, whose
    /// header alone gets the response. `None` if the server does not know the upload.
    async fn missing_ranges(
        &self,
        id: UploadKey,
        deadline: CallDeadline,
    ) -> Result<Option<Vec<Range<u64>>>> {
        let id = v1::stat_request::Id::UploadId(id.to_bytes());
        let request = deadline.request(v1::StatRequest { id: Some(id) });
        let missing = match deadline.response(self.store().stat(request)).await {
            Ok(stat) => match stat.status {
                Some(Status::Object(_)) => Vec::new(),
                Some(Status::Upload(progress)) => progress.missing,
                None => return Err(ClientError::invalid_response("the status is empty")),
            },
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(Some(missing.into_iter().map(|range| range.start..range.end).collect()))
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
                return Err(first_error.unwrap_or(ClientError::invalid_response("no response")));
            }
        }
    }
}

/// Whether the error is a cause, rather than a consequence of another lane's error.
fn is_cause(error: &ClientError) -> bool {
    !error.reason_text().is_empty() && error.reason() != Some(Reason::Cancelled)
}
