//! An upload in chunks over any number of streams.
//!
//! Each stream takes the next chunk when its transport has capacity, so a slow connection carries
//! less. Chunks that a broken stream took and the server did not receive are requeued.

use std::{
    collections::VecDeque,
    iter,
    ops::Range,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_util::{FutureExt, Stream};
use parking_lot::Mutex;
use tokio::{
    sync::mpsc,
    task::yield_now,
    time::{Instant, Sleep, sleep},
};

use super::payload::{ChunkPool, OutgoingBytes};
use crate::wire::v1;
use crate::{Client, Progress, error::Result};

/// Chunks per lane that wait for the transport, so that it never waits for the caller's thread.
const QUEUED_CHUNKS: usize = 8;
/// Chunks prepared per wakeup of the caller's thread: saves up to a fifth of an upload's time
/// (`benches/experiments/transport.md`).
const CHUNKS_PER_WAKEUP: usize = QUEUED_CHUNKS / 2;
/// The tasks of the connection, which send the header, may be next on the caller's thread.
const YIELDS_BEFORE_COPIES: usize = 3;
/// How long an abandoned stream waits for its reset. The wait ends earlier unless the server
/// responded early and still reads the stream.
const RESET_WAIT: Duration = Duration::from_secs(1);

pub(crate) struct ChunkQueue<'a> {
    payload: OutgoingBytes<'a>,
    chunks: Arc<ChunkPool>,
    chunk_bytes: u64,
    progress: Option<Progress>,
    state: Mutex<QueueState>,
}

#[derive(Default)]
struct QueueState {
    /// Ranges that no lane has taken, in order.
    pending: VecDeque<Range<u64>>,
    sent: u64,
    first_taken: Option<Instant>,
    /// Time from the first chunk to the last one.
    elapsed: Duration,
}

impl Client {
    pub(crate) fn chunk_queue<'a>(
        &self,
        payload: OutgoingBytes<'a>,
        progress: Option<Progress>,
    ) -> ChunkQueue<'a> {
        let chunks = ChunkPool::new(&self.inner.spare_chunks, &self.inner.copies);
        ChunkQueue::new(payload, self.inner.chunk_bytes, chunks, progress)
    }
}

impl<'a> ChunkQueue<'a> {
    fn new(
        payload: OutgoingBytes<'a>,
        chunk_bytes: u64,
        chunks: Arc<ChunkPool>,
        progress: Option<Progress>,
    ) -> Self {
        let pending = iter::once(0..payload.len()).collect();
        let state = Mutex::new(QueueState { pending, ..Default::default() });
        Self { payload, chunks, chunk_bytes, progress, state }
    }

    pub fn len(&self) -> u64 {
        self.payload.len()
    }

    /// The number of chunks, if no lane breaks.
    pub fn chunks(&self) -> usize {
        self.payload.len().div_ceil(self.chunk_bytes) as usize
    }

    /// Time from the first chunk to the last one.
    pub fn elapsed(&self) -> Duration {
        self.state.lock().elapsed
    }

    pub fn reset_to(&self, missing: Vec<Range<u64>>) {
        let mut state = self.state.lock();
        let missing_bytes: u64 = missing.iter().map(|range| range.end - range.start).sum();
        state.sent = self.payload.len().saturating_sub(missing_bytes);
        state.pending = missing.into();
    }

    /// The next chunk, whose range is added to `taken`.
    pub fn next(&self, taken: &mut Vec<Range<u64>>) -> Option<v1::Chunk> {
        self.next_several(1, taken).pop()
    }

    pub fn next_several(&self, count: usize, taken: &mut Vec<Range<u64>>) -> Vec<v1::Chunk> {
        let ranges: Vec<_> = (0..count).map_while(|_| self.take_range()).collect();
        taken.extend_from_slice(&ranges);
        let chunks = self.payload.chunks(ranges.clone(), &self.chunks);
        let chunk = |(range, data): (Range<u64>, _)| v1::Chunk { offset: range.start, data };
        ranges.into_iter().zip(chunks).map(chunk).collect()
    }

    fn take_range(&self) -> Option<Range<u64>> {
        let mut state = self.state.lock();
        let mut range = state.pending.pop_front()?;
        if range.end - range.start > self.chunk_bytes {
            let chunk_end = range.start + self.chunk_bytes;
            state.pending.push_front(chunk_end..range.end);
            range.end = chunk_end;
        }
        state.sent += range.end - range.start;
        let (sent, now) = (state.sent, Instant::now());
        state.elapsed = now - *state.first_taken.get_or_insert(now);
        drop(state);
        if range.is_empty() {
            return None;
        }
        if let Some(progress) = &self.progress {
            progress(sent, self.payload.len());
        }
        Some(range)
    }

    /// Requeues what a broken lane had `taken` and the server is `missing`.
    pub fn requeue(&self, taken: &mut Vec<Range<u64>>, missing: &[Range<u64>]) {
        let mut state = self.state.lock();
        for range in taken.drain(..) {
            for gap in missing {
                let lost = range.start.max(gap.start)..range.end.min(gap.end);
                if !lost.is_empty() {
                    state.sent -= lost.end - lost.start;
                    state.pending.push_back(lost);
                }
            }
        }
    }

    /// Sends the header, the `first` chunk and the remaining ones, as [`send_messages`] does.
    pub async fn stream<M, T, F: Future<Output = Result<T>>>(
        &self,
        header: M,
        mut first: Option<v1::Chunk>,
        wrap: fn(v1::Chunk) -> M,
        taken: &mut Vec<Range<u64>>,
        call: impl FnOnce(MessageStream<M>) -> F,
    ) -> Result<T> {
        let next = |count| {
            let more = self.next_several(count - usize::from(first.is_some()), taken);
            first.take().into_iter().chain(more).map(wrap).collect()
        };
        send_messages(header, next, call).await
    }
}

/// Sends the header and what `next` returns, while `call` awaits the response to the stream. `next`
/// is asked for a number of messages until it returns fewer. An early response ends the stream.
pub(crate) async fn send_messages<M, T, F: Future<Output = Result<T>>>(
    header: M,
    mut next: impl FnMut(usize) -> Vec<M>,
    call: impl FnOnce(MessageStream<M>) -> F,
) -> Result<T> {
    let (sender, messages) = mpsc::channel(QUEUED_CHUNKS);
    let mut response = pin!(call(MessageStream { messages, abandoned: None }));
    let feed = async {
        let sender = sender;
        // A send fails if the stream has ended; the response says why.
        let _ = sender.send(Some(header)).await;
        while let Ok(permits) = sender.reserve_many(CHUNKS_PER_WAKEUP).await {
            let mut messages = next(permits.len()).into_iter();
            for permit in permits {
                let message = messages.next();
                let is_end = message.is_none();
                permit.send(message);
                if is_end {
                    return;
                }
            }
        }
    };
    tokio::select! {
        biased;
        early = &mut response => return early,
        () = feed => {}
    }
    response.await
}

/// Sends the header and the messages that `copy` sends for one batch after another until it returns
/// false: `pieces` messages at most. Meanwhile, `call` awaits the response to the stream. An early
/// response ends the stream.
pub(crate) async fn send_copied<M, T, F: Future<Output = Result<T>>>(
    header: M,
    pieces: usize,
    mut copy: impl FnMut(&MessageSender<M>) -> bool,
    call: impl FnOnce(MessageStream<M>) -> F,
) -> Result<T> {
    // With the header and the end, no message waits.
    let (sender, messages) = mpsc::channel(pieces + 2);
    let mut response = pin!(call(MessageStream { messages, abandoned: None }));
    let sender = MessageSender(sender);
    sender.send(header);
    for _ in 0..YIELDS_BEFORE_COPIES {
        if let Some(early) = response.as_mut().now_or_never() {
            return early;
        }
        yield_now().await;
    }
    while copy(&sender) {
        if let Some(early) = response.as_mut().now_or_never() {
            return early;
        }
        yield_now().await;
    }
    let _ = sender.0.try_send(None);
    response.await
}

/// Sends messages of a stream that has room for all of them.
pub(crate) struct MessageSender<M>(mpsc::Sender<Option<M>>);

impl<M> MessageSender<M> {
    pub fn send(&self, message: M) {
        // Fails if the stream has ended; the response says why.
        let _ = self.0.try_send(Some(message));
    }
}

/// The messages of a stream, which only its sender ends. A stream abandoned half-way must not look
/// complete to the server, so it stays pending until the drop of its call resets it.
pub(crate) struct MessageStream<M> {
    messages: mpsc::Receiver<Option<M>>,
    abandoned: Option<Pin<Box<Sleep>>>,
}

impl<M> Stream for MessageStream<M> {
    type Item = M;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<M>> {
        if let Some(message) = ready!(self.messages.poll_recv(context)) {
            return Poll::Ready(message);
        }
        let reset_wait = self.abandoned.get_or_insert_with(|| Box::pin(sleep(RESET_WAIT)));
        reset_wait.as_mut().poll(context).map(|()| None)
    }
}

#[cfg(test)]
mod tests {
    use super::{ChunkPool, ChunkQueue, OutgoingBytes};

    fn queue(bytes: &[u8], chunk_bytes: u64) -> ChunkQueue<'_> {
        let chunks = ChunkPool::new(&Default::default(), &Default::default());
        ChunkQueue::new(OutgoingBytes::Public(bytes), chunk_bytes, chunks, None)
    }

    #[test]
    fn chunks_cover_the_payload_exactly_once() {
        let bytes = [7; 1000];
        let upload = queue(&bytes, 300);
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
    fn requeues_only_the_missing_ranges_of_a_broken_lane() {
        let bytes = [7; 1000];
        let upload = queue(&bytes, 500);
        let mut taken = Vec::new();
        assert!(upload.next(&mut taken).is_some());
        upload.requeue(&mut taken, &[100..200, 400..1000]);
        let mut again = Vec::new();
        while upload.next(&mut again).is_some() {}
        assert_eq!(again, [500..1000, 100..200, 400..500]);
        assert!(taken.is_empty());
    }

    #[test]
    fn an_empty_payload_has_no_chunks() {
        let upload = queue(&[], 300);
        assert!(upload.next(&mut Vec::new()).is_none());
    }
}
