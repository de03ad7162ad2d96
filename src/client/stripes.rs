//! A payload over several connections at once: a stream on each (a lane), resumed where it breaks.

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

/// How long a lane's failure waits for a better reason from the others: when a job fails, its
/// stripes fail with it, and theirs may come first.
const REASON_WAIT: Duration = Duration::from_millis(200);
/// How often one lane is opened again while the others go on.
const LANE_RETRIES: u32 = 3;
/// How long a broken lane waits before it is opened again.
const LANE_PAUSE: Duration = Duration::from_millis(20);

/// The header of an upload, as each of its `Store.Put` streams repeats it.
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

/// What the server has of an upload.
enum Arrived {
    Nothing,
    AllBut(Vec<Range<u64>>),
    All,
}

impl Client {
    /// Puts a whole payload. A broken upload goes on where it broke.
    pub(crate) fn put_payload<'a>(
        &'a self,
        mut header: Header,
        mut id: UploadId,
        upload: &'a Upload<'_>,
        call: &'a mut Call,
    ) -> Answer<'a, v1::PutResponse> {
        Box::pin(async move {
            let mut lanes = self.lanes(upload.len());
            let mut scrap = Borrowed::new(self, id);
            loop {
                header.set(id, lanes);
                let header = &header;
                let streams = (0..lanes).map(|lane| self.put_lane(lane, header, id, upload, call));
                let error = match call.bounded(first_answer(streams.collect())).await {
                    Ok(answer) => {
                        scrap.keep();
                        return Ok(answer);
                    }
                    Err(error) => error,
                };
                call.pause(error).await?;
                lanes = self.resume(&mut id, upload, call).await?;
                scrap.rename(id);
            }
        })
    }

    /// Readies a broken upload to go on with what is missing, or to begin again under another id
    /// where the server has nothing of it. Returns how many lanes it may take.
    ///
    /// What goes on takes a single one: the server has counted streams that ended before, so that
    /// several new ones, of which one ends before another begins, would look like all there are.
    pub(crate) async fn resume(
        &self,
        id: &mut UploadId,
        upload: &Upload<'_>,
        call: &mut Call,
    ) -> Result<usize> {
        let arrived = loop {
            match self.arrived(*id, call).await {
                Ok(arrived) => break arrived,
                // What broke the upload may last.
                Err(error) => call.pause(error).await?,
            }
        };
        match arrived {
            Arrived::AllBut(missing) => upload.restart(missing),
            // Complete: the header alone is answered.
            Arrived::All => upload.restart(Vec::new()),
            Arrived::Nothing => {
                upload.restart(std::iter::once(0..upload.len()).collect());
                *id = UploadId::random()?;
                return Ok(self.lanes(upload.len()));
            }
        }
        Ok(1)
    }

    /// One `Store.Put` stream that carries some of the payload. Broken, it is opened again while
    /// the other lanes go on.
    ///
    /// But for the first one, a lane opens its stream only with a chunk in hand: the upload cannot
    /// be complete without it, so no stream comes after the upload has ended and begins it anew.
    /// One that finds nothing to carry never answers.
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
                Err(error @ Error::Lost(_)) if retries_left > 0 => error,
                Err(error) => return Err(error),
            };
            retries_left -= 1;
            sleep(LANE_PAUSE).await;
            match self.arrived(id, call).await {
                Ok(Arrived::AllBut(missing)) => upload.give_back(&mut taken, &missing),
                Ok(Arrived::All) => taken.clear(),
                // Not resumable lane by lane: the whole upload is.
                Ok(Arrived::Nothing) | Err(_) => return Err(error),
            }
        }
    }

    /// What the server has of upload `id`.
    async fn arrived(&self, id: UploadId, call: &Call) -> Result<Arrived> {
        let id = v1::stat_request::Id::UploadId(id.0.to_vec().into());
        let request = call.request(v1::StatRequest { id: Some(id) });
        let stat = match call.within(self.store().stat(request)).await {
            Ok(stat) => stat,
            Err(error) if error.is_not_found() => return Ok(Arrived::Nothing),
            Err(error) => return Err(error),
        };
        Ok(match stat.status {
            Some(v1::stat_response::Status::Object(_)) => Arrived::All,
            Some(v1::stat_response::Status::Upload(progress)) => {
                let missing = progress.missing.into_iter();
                Arrived::AllBut(missing.map(|range| range.start..range.end).collect())
            }
            None => return Err(Error::answer("a status without content")),
        })
    }
}

/// The first answer of any of `lanes`; else the error that says most.
pub(crate) async fn first_answer<T, F>(mut lanes: FuturesUnordered<F>) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let mut failed: Option<Error> = None;
    let mut patience = pin!(sleep(REASON_WAIT));
    loop {
        let next = tokio::select! {
            biased;
            next = lanes.next() => next,
            () = &mut patience, if failed.is_some() => None,
        };
        match (next, failed.take()) {
            (Some(Ok(answer)), _) => return Ok(answer),
            (Some(Err(error)), _) if tells(&error) => return Err(error),
            (Some(Err(error)), None) => {
                patience.as_mut().reset(Instant::now() + REASON_WAIT);
                failed = Some(error);
            }
            (Some(Err(_)), first) => failed = first,
            (None, first) => return Err(first.unwrap_or(Error::answer("no answer"))),
        }
    }
}

/// True for an error that is itself the reason, rather than what follows from another one.
fn tells(error: &Error) -> bool {
    !matches!(error, Error::Lost(_)) && !matches!(error.reason(), "" | "CANCELLED")
}
