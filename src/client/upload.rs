//! Payloads in chunks, over several connections at once, resumed where one of them breaks.
//!
//! Every lane (a stream on a connection of its own) takes the next chunk whenever the transport has
//! room for it, so a slow connection carries less. What a broken lane had taken, and the server does
//! not have, goes back to the others.

use std::{
    collections::VecDeque,
    future::Future,
    ops::Range,
    pin::pin,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep},
};
use tokio_stream::wrappers::ReceiverStream;

use super::{
    Client, Progress,
    call::Call,
    error::{Error, Result},
    payload::Payload,
    types::UploadId,
};
use crate::wire::v1;

/// Chunks that wait for the transport, for each lane.
const CHUNKS_WAITING: usize = 2;
/// How long a lane's failure waits for a better reason from the others: when a job fails, its
/// stripes fail with it, and theirs may come first.
const REASON_WAIT: Duration = Duration::from_millis(200);
/// How often one lane is opened again while the others go on.
const LANE_RETRIES: u32 = 3;

/// A payload under way.
pub(crate) struct Upload<'a> {
    payload: Payload<'a>,
    chunk_bytes: u64,
    progress: Option<Progress>,
    /// Bytes of other payloads that `progress` counts too.
    more_bytes: u64,
    state: Mutex<State>,
}

struct State {
    /// What no lane has taken, in order.
    todo: VecDeque<Range<u64>>,
    sent: u64,
    first: Option<Instant>,
    last: Option<Instant>,
}

impl<'a> Upload<'a> {
    pub fn new(payload: Payload<'a>, chunk_bytes: u64, progress: Option<Progress>) -> Self {
        let all = 0..payload.len();
        let state = State { todo: VecDeque::from([all]), sent: 0, first: None, last: None };
        Self { payload, chunk_bytes, progress, more_bytes: 0, state: Mutex::new(state) }
    }

    /// Counts `bytes` that will follow this payload into the total of its progress.
    pub fn followed_by(mut self, bytes: u64) -> Self {
        self.more_bytes = bytes;
        self
    }

    /// Bytes of the payload.
    pub fn len(&self) -> u64 {
        self.payload.len()
    }

    /// From the first chunk to the last one.
    pub fn elapsed(&self) -> Duration {
        let state = self.lock();
        match (state.first, state.last) {
            (Some(first), Some(last)) => last - first,
            _ => Duration::ZERO,
        }
    }

    /// Starts again with what is missing.
    pub fn restart(&self, missing: Vec<Range<u64>>) {
        let mut state = self.lock();
        let left: u64 = missing.iter().map(|range| range.end - range.start).sum();
        state.sent = self.payload.len().saturating_sub(left);
        state.todo = missing.into();
    }

    /// Starts again from nothing.
    pub fn restart_all(&self) {
        self.restart(vec![0..self.payload.len()]);
    }

    /// The next chunk, noted in `taken`.
    fn next(&self, taken: &mut Vec<Range<u64>>) -> Option<v1::Chunk> {
        let (range, sent) = {
            let mut state = self.lock();
            let mut range = state.todo.pop_front()?;
            if range.end - range.start > self.chunk_bytes {
                let cut = range.start + self.chunk_bytes;
                state.todo.push_front(cut..range.end);
                range.end = cut;
            }
            state.sent += range.end - range.start;
            let now = Instant::now();
            state.first.get_or_insert(now);
            state.last = Some(now);
            (range, state.sent)
        };
        if range.is_empty() {
            return None;
        }
        if let Some(progress) = &self.progress {
            progress(sent, self.payload.len() + self.more_bytes);
        }
        taken.push(range.clone());
        Some(v1::Chunk { offset: range.start, data: self.payload.chunk(range) })
    }

    /// Gives back what a broken lane had `taken` and the server is `missing`.
    fn give_back(&self, taken: &mut Vec<Range<u64>>, missing: &[Range<u64>]) {
        let mut state = self.lock();
        for range in taken.drain(..) {
            for gap in missing {
                let lost = range.start.max(gap.start)..range.end.min(gap.end);
                if !lost.is_empty() {
                    state.sent -= lost.end - lost.start;
                    state.todo.push_back(lost);
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held; and a payload's ranges are consistent at any moment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the header and then chunks until there are none, while `call` waits for the answer to
    /// the stream that it is given. An answer that comes early ends it.
    pub async fn stream<M, T, F>(
        &self,
        header: M,
        wrap: fn(v1::Chunk) -> M,
        taken: &mut Vec<Range<u64>>,
        call: impl FnOnce(ReceiverStream<M>) -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let (sender, receiver) = mpsc::channel(CHUNKS_WAITING);
        let mut answer = pin!(call(ReceiverStream::new(receiver)));
        let feed = async {
            let sender = sender;
            // A send fails when the stream is over: the answer says why.
            if sender.send(header).await.is_ok() {
                while let Ok(room) = sender.reserve().await {
                    match self.next(taken) {
                        Some(chunk) => room.send(wrap(chunk)),
                        None => break,
                    }
                }
            }
        };
        tokio::select! {
            biased;
            early = &mut answer => return early,
            () = feed => {}
        }
        answer.await
    }
}

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
pub(crate) enum Arrived {
    Nothing,
    AllBut(Vec<Range<u64>>),
    All,
}

impl Client {
    /// Puts a whole payload. A broken upload goes on where it broke.
    pub(crate) async fn put_payload(
        &self,
        mut header: Header,
        mut id: UploadId,
        upload: &Upload<'_>,
        call: &mut Call,
    ) -> Result<v1::PutResponse> {
        let lanes = self.lanes(upload.len());
        loop {
            header.set(id, lanes);
            let header = &header;
            let streams = (0..lanes).map(|lane| self.put_lane(lane, header, id, upload, call));
            let error = match call.bounded(first_answer(streams.collect())).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            call.pause(error).await?;
            match self.arrived(id, call).await? {
                Arrived::AllBut(missing) => upload.restart(missing),
                // Complete: the header alone is answered with the object.
                Arrived::All => upload.restart(Vec::new()),
                Arrived::Nothing => {
                    upload.restart_all();
                    id = UploadId::random()?;
                }
            }
        }
    }

    /// One `Store.Put` stream that carries some of the payload. Broken, it is opened again while
    /// the other lanes go on.
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
            let wrap =
                |chunk| v1::PutRequest { message: Some(v1::put_request::Message::Chunk(chunk)) };
            let mut store = self.store_on(lane);
            let put = async |stream| {
                let answer = store.put(call.request(stream)).await;
                Ok(answer?.into_inner())
            };
            let error = match upload.stream(header.message(), wrap, &mut taken, put).await {
                Ok(answer) => return Ok(answer),
                Err(error @ Error::Lost(_)) if retries_left > 0 => error,
                Err(error) => return Err(error),
            };
            retries_left -= 1;
            sleep(Duration::from_millis(20)).await;
            match self.arrived(id, call).await {
                Ok(Arrived::AllBut(missing)) => upload.give_back(&mut taken, &missing),
                Ok(Arrived::All) => taken.clear(),
                // Not resumable lane by lane: the whole upload is.
                Ok(Arrived::Nothing) | Err(_) => return Err(error),
            }
        }
    }

    /// What the server has of upload `id`.
    pub(crate) async fn arrived(&self, id: UploadId, call: &Call) -> Result<Arrived> {
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

#[cfg(test)]
mod tests {
    use super::{Payload, Upload};

    #[test]
    fn chunks_cover_the_payload_once_whoever_takes_them() {
        let bytes = [7; 1000];
        let upload = Upload::new(Payload::Public(&bytes), 300, None);
        let (mut even, mut odd) = (Vec::new(), Vec::new());
        for turn in 0.. {
            let taken = if turn % 2 == 0 { &mut even } else { &mut odd };
            if upload.next(taken).is_none() {
                break;
            }
        }
        assert_eq!((even, odd), (vec![0..300, 600..900], vec![300..600, 900..1000]));
    }

    #[test]
    fn a_broken_lane_gives_back_only_what_is_missing() {
        let bytes = [7; 1000];
        let upload = Upload::new(Payload::Public(&bytes), 500, None);
        let mut taken = Vec::new();
        assert!(upload.next(&mut taken).is_some());
        upload.give_back(&mut taken, &[100..200, 400..1000]);
        let mut again = Vec::new();
        while upload.next(&mut again).is_some() {}
        assert_eq!(again, [500..1000, 100..200, 400..500]);
        assert!(taken.is_empty());
    }

    #[test]
    fn an_empty_payload_has_no_chunks() {
        let upload = Upload::new(Payload::Public(&[]), 300, None);
        assert!(upload.next(&mut Vec::new()).is_none());
    }
}
