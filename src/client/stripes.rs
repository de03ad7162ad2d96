//! Uploads over several connections: one stream on each (a lane), resumed if it breaks.

use std::{future::Future, ops::Range, pin::pin, time::Duration};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, sleep};

use super::{
    Client,
    call::{Answer, Call},
    error::{Error, Result},
    types::UploadId,
    upload::Upload,
    vectors::Borrowed,
};
use crate::wire::v1;

/// How long a failed lane waits for a more specific error of another lane: if a job fails, its
/// stripes fail too, possibly first.
const REASON_WAIT: Duration = Duration::from_millis(200);
/// How often one lane is reopened while the others continue.
const LANE_RETRIES: u32 = 3;
/// Delay before a broken lane is reopened.
const LANE_PAUSE: Duration = Duration::from_millis(20);

/// The header of an upload, which each of its `Store.Put` streams repeats.
#[derive(Clone)]
pub(crate) enum Header {
    Bases(v1::BasesUpload),
    Vector(v1::VectorUpload),
}

impl Header {
    fn message(&self) -> v1::PutRequest {
        use v1::put_request::Message;
        let message = match self.clone() {
            Self::Bases(bases) => Message::Bases(bases),
            Self::Vector(vector) => Message::Vector(vector),
        };
        v1::PutRequest { message: Some(message) }
    }

    fn set(&mut self, id: UploadId, streams: usize) {
        let id = id.0.to_vec().into();
        let streams = u32::try_from(streams).unwrap_or(u32::MAX);
        match self {
            Self::Bases(bases) => (bases.upload_id, bases.streams) = (id, streams),
            Self::Vector(vector) => (vector.upload_id, vector.streams) = (id, streams),
        }
    }
}

/// How much of an upload the server has received.
enum Arrived {
    Unknown,
    Missing(Vec<Range<u64>>),
    Complete,
}

impl Client {
    /// Uploads a whole payload; resumes the upload if it breaks.
    pub(crate) fn put_payload<'a>(
        &'a self,
        mut header: Header,
        mut id: UploadId,
        upload: &'a Upload<'_>,
        call: &'a mut Call,
    ) -> Answer<'a, v1::PutResponse> {
        Box::pin(async move {
            let mut lanes = self.lanes(upload.len());
            let mut guard = Borrowed::new(self, id);
            loop {
                header.set(id, lanes);
                let header = &header;
                let streams = (0..lanes).map(|lane| self.put_lane(lane, header, id, upload, call));
                let error = match call.bounded(first_answer(streams.collect())).await {
                    Ok(answer) => {
                        guard.keep();
                        return Ok(answer);
                    }
                    Err(error) => error,
                };
                call.pause(error).await?;
                lanes = self.resume(&mut id, upload, call).await?;
                guard.rename(id);
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
        id: &mut UploadId,
        upload: &Upload<'_>,
        call: &mut Call,
    ) -> Result<usize> {
        let arrived = loop {
            match self.arrived(*id, call).await {
                Ok(arrived) => break arrived,
                // The cause of the break may persist.
                Err(error) => call.pause(error).await?,
            }
        };
        match arrived {
            Arrived::Missing(missing) => upload.restart(missing),
            // Complete: the server responds to the header alone.
            Arrived::Complete => upload.restart(Vec::new()),
            Arrived::Unknown => {
                upload.restart(std::iter::once(0..upload.len()).collect());
                *id = UploadId::random()?;
                return Ok(self.lanes(upload.len()));
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
    pub(crate) async fn put_lane(
        &self,
        lane: usize,
        header: &Header,
        id: UploadId,
        upload: &Upload<'_>,
        call: &Call,
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
                Err(error @ Error::ConnectionLost(_)) if retries_left > 0 => error,
                Err(error) => return Err(error),
            };
            retries_left -= 1;
            sleep(LANE_PAUSE).await;
            match self.arrived(id, call).await {
                Ok(Arrived::Missing(missing)) => upload.give_back(&mut taken, &missing),
                Ok(Arrived::Complete) => taken.clear(),
                // The lane cannot resume by itself; the caller resumes the whole upload.
                Ok(Arrived::Unknown) | Err(_) => return Err(error),
            }
        }
    }

    /// Asks the server what it has received of upload `id`.
    async fn arrived(&self, id: UploadId, call: &Call) -> Result<Arrived> {
        let id = v1::stat_request::Id::UploadId(id.0.to_vec().into());
        let request = call.request(v1::StatRequest { id: Some(id) });
        let stat = match call.within(self.store().stat(request)).await {
            Ok(stat) => stat,
            Err(error) if error.is_not_found() => return Ok(Arrived::Unknown),
            Err(error) => return Err(error),
        };
        Ok(match stat.status {
            Some(v1::stat_response::Status::Object(_)) => Arrived::Complete,
            Some(v1::stat_response::Status::Upload(progress)) => {
                let missing = progress.missing.into_iter();
                Arrived::Missing(missing.map(|range| range.start..range.end).collect())
            }
            None => return Err(Error::answer("the status is empty")),
        })
    }
}

/// The first response of any lane, or the most specific error.
pub(crate) async fn first_answer<T, F>(mut lanes: FuturesUnordered<F>) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let mut failed: Option<Error> = None;
    let mut reason_wait = pin!(sleep(REASON_WAIT));
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
                reason_wait.as_mut().reset(Instant::now() + REASON_WAIT);
                failed = Some(error);
            }
            (Some(Err(_)), first) => failed = first,
            (None, first) => return Err(first.unwrap_or(Error::answer("no response"))),
        }
    }
}

/// Whether the error is a cause, rather than a consequence of another lane's error.
fn is_cause(error: &Error) -> bool {
    !matches!(error, Error::ConnectionLost(_)) && !matches!(error.reason(), "" | "CANCELLED")
}
