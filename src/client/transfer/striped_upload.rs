//! Uploads over several connections: one stream on each (a lane), resumed if it breaks.
//!
//! The lanes of an upload name the server that they expect, so that lanes that a load balancer
//! sends to another one are refused: their chunks would be missing. Then the upload begins again,
//! and at last on one lane, which needs no other.

use std::{future, iter, ops::Range, pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use capstan_math::error::Reason;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, sleep};
use tonic::{codegen::http::HeaderValue, metadata::MetadataMap};

use super::{frames, upload::ChunkQueue};
use crate::wire::{
    INSTANCE_HEADER,
    v1::{self, put_request::Message, stat_response::Status},
};
use crate::{
    Client,
    call::{CallBudget, CallDeadline, CallFuture},
    connection::affinity::CallRoute,
    error::{ClientError, Result},
    objects::release::ReleaseOnDrop,
    types::UploadKey,
};

/// How long a failed lane waits for a more specific error of another lane: if a job fails, its
/// stripes fail too, possibly first.
const CAUSE_WAIT: Duration = Duration::from_millis(200);
/// How often one lane is reopened while the others continue.
const LANE_RETRIES: u32 = 3;
const LANE_PAUSE: Duration = Duration::from_millis(20);
/// After this number of attempts whose lanes reached several servers, an upload has one lane only.
const STRAYS_MAX: u32 = 2;

/// One of the streams that carry the uploads of a call. Lane 0 of upload 0 is the call's own
/// stream, which can carry all of them.
#[derive(Clone)]
pub(crate) struct UploadLane {
    pub upload: usize,
    pub number: usize,
    /// Id and number of streams of each upload of the call.
    pub streams: Arc<[UploadStripes]>,
    /// The route of all lanes of the call.
    pub route: CallRoute,
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

/// What a server has not received of an upload.
struct MissingRanges {
    ranges: Vec<Range<u64>>,
    server: Option<HeaderValue>,
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
    fn new(client: &Client, id: UploadKey, route: &CallRoute, queue: &'a ChunkQueue<'a>) -> Self {
        let streams = UploadStripes { id, count: client.lane_count(queue.len()) };
        Self { queue, streams, guard: ReleaseOnDrop::new(client, id, route) }
    }

    /// Sends all of it under a new id.
    fn restart(&mut self, client: &Client) -> Result<()> {
        let id = UploadKey::random()?;
        self.queue.reset_to(iter::once(0..self.queue.len()).collect());
        self.streams = UploadStripes { id, count: client.lane_count(self.queue.len()) };
        self.guard.id = Some(id);
        Ok(())
    }

    /// Sends what is `missing`.
    fn resume(&mut self, missing: Vec<Range<u64>>) {
        self.queue.reset_to(missing);
        // The server has counted the streams that ended: of several new ones, one that ends before
        // another begins would look like the last.
        self.streams.count = 1;
    }
}

impl Client {
    pub(crate) fn put_payload<'a>(
        &'a self,
        header: PutHeader,
        id: UploadKey,
        upload: &'a ChunkQueue<'_>,
        call: &'a mut CallBudget,
        route: CallRoute,
    ) -> CallFuture<'a, v1::PutResponse> {
        Box::pin(async move {
            let deadline = call.deadline;
            let run = |lane| self.run_lane(lane, &header, upload, deadline);
            self.upload_over_lanes(&route, vec![id], &[upload], call, run).await
        })
    }

    /// Runs a call's streams until one has the response. A broken upload continues with its missing
    /// ranges, or restarts under another id if the server has none of it.
    pub(crate) async fn upload_over_lanes<T, F: Future<Output = Result<T>>>(
        &self,
        route: &CallRoute,
        ids: Vec<UploadKey>,
        queues: &[&ChunkQueue<'_>],
        call: &mut CallBudget,
        run_lane: impl Fn(UploadLane) -> F,
    ) -> Result<T> {
        let uploads = ids.into_iter().zip(queues);
        let mut uploads: Vec<_> =
            uploads.map(|(id, queue)| CallUpload::new(self, id, route, queue)).collect();
        let (mut strays, mut holder) = (0, None);
        loop {
            let is_striped = uploads.iter().any(|upload| upload.streams.count > 1);
            let pinned = match holder.take() {
                // What is missing is missing there.
                Some(instance) => Some(CallRoute { instance: Some(instance), ..route.clone() }),
                None if is_striped && strays < STRAYS_MAX => self.pin(route, call.deadline).await?,
                None => None,
            };
            if pinned.is_none() {
                uploads.iter_mut().for_each(|upload| upload.streams.count = 1);
            }
            let pinned = pinned.unwrap_or_else(|| route.clone());
            let streams: Arc<[_]> = uploads.iter().map(|upload| upload.streams).collect();
            let lane = |upload, number| {
                let (streams, route) = (streams.clone(), pinned.clone());
                run_lane(UploadLane { upload, number, streams, route })
            };
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
                Err(error) if error.reason() == Some(Reason::OtherServer) => {
                    strays += 1;
                    call.wait_before_retry(error).await?;
                    for upload in &mut uploads {
                        // Some of it may be on any of several servers.
                        ReleaseOnDrop::new(self, upload.streams.id, &pinned).release_later();
                        upload.restart(self)?;
                    }
                    continue;
                }
                Err(error) => call.wait_before_retry(error).await?,
            }
            holder = self.resume(&mut uploads, &pinned, call).await?;
        }
    }

    /// Prepares the rest of broken uploads. Returns the server that has some of it.
    async fn resume(
        &self,
        uploads: &mut [CallUpload<'_>],
        route: &CallRoute,
        call: &mut CallBudget,
    ) -> Result<Option<HeaderValue>> {
        let mut holder = None;
        for upload in uploads {
            let missing = loop {
                match self.missing_ranges(upload.streams.id, route, call.deadline).await {
                    Ok(missing) => break missing,
                    // The cause of the break may persist.
                    Err(error) => call.wait_before_retry(error).await?,
                }
            };
            match missing {
                Some(missing) => {
                    holder = missing.server.or(holder);
                    upload.resume(missing.ranges);
                }
                None => upload.restart(self)?,
            }
        }
        Ok(holder)
    }

    /// The route of several lanes, which names their server. `None` if that is not known: calls may
    /// reach several servers.
    async fn pin(&self, route: &CallRoute, deadline: CallDeadline) -> Result<Option<CallRoute>> {
        let server = &self.inner.server;
        if !server.is_routed() {
            return Ok(Some(CallRoute { instance: server.instance(), ..route.clone() }));
        }
        let id = Some(v1::stat_request::Id::UploadId(Bytes::new()));
        let request = deadline.request(v1::StatRequest { id });
        let question = async {
            // No upload has this id.
            Ok(match self.store(route).stat(request).await {
                Ok(answer) => server_name(answer.metadata()),
                Err(status) => server_name(status.metadata()),
            })
        };
        let instance = deadline.until_deadline(question).await?;
        Ok(instance.map(|name| CallRoute { instance: Some(name), ..route.clone() }))
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
        let (mut route, mut retries_left) = (lane.route.clone(), LANE_RETRIES);
        loop {
            let first = upload.next(&mut taken);
            if first.is_none() && lane.number > 0 {
                return future::pending().await;
            }
            let wrap = |chunk| v1::PutRequest { message: Some(Message::Chunk(chunk)) };
            let mut store = self.store_on(lane.number, &route);
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
            match self.missing_ranges(lane.streams().id, &route, deadline).await {
                Ok(Some(missing)) => {
                    route.instance = missing.server.or(route.instance);
                    upload.requeue(&mut taken, &missing.ranges);
                }
                // The lane cannot resume by itself; the caller resumes the whole upload.
                Ok(None) | Err(_) => return Err(error),
            }
        }
    }

    /// The ranges of upload `id` that its server has not received: none of a complete upload, whose
    /// header alone gets the response. `None` if the server does not know the upload.
    async fn missing_ranges(
        &self,
        id: UploadKey,
        route: &CallRoute,
        deadline: CallDeadline,
    ) -> Result<Option<MissingRanges>> {
        let id = v1::stat_request::Id::UploadId(id.to_bytes());
        let request = deadline.request(v1::StatRequest { id: Some(id) });
        let mut store = self.store(route);
        let stat = deadline.until_deadline(async { Ok(store.stat(request).await?) });
        let (stat, server) = match stat.await {
            Ok(stat) => {
                let server = server_name(stat.metadata());
                (stat.into_inner(), server)
            }
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) if error.reason() == Some(Reason::OtherServer) => return Ok(None),
            Err(error) => return Err(error),
        };
        let missing = match stat.status {
            Some(Status::Object(_)) => Vec::new(),
            Some(Status::Upload(progress)) => progress.missing,
            None => return Err(ClientError::invalid_response("the status is empty")),
        };
        let ranges = missing.into_iter().map(|range| range.start..range.end).collect();
        Ok(Some(MissingRanges { ranges, server }))
    }
}

/// The server that a response names.
fn server_name(metadata: &MetadataMap) -> Option<HeaderValue> {
    let name = metadata.get(INSTANCE_HEADER)?;
    HeaderValue::from_bytes(name.as_encoded_bytes()).ok()
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
