//! The messages of a streamed response that wait for the reader.
//!
//! The transport asks for a message when the reader has room for the previous one, and copies it
//! into its own buffer. All others wait here, where the sender can drop them: the messages may
//! share the memory of payloads, and a reader that stalls would keep it until its connection ends.
//!
//! Results are lent to the encoder, not to the socket: chunks are `Bytes` in payload memory, and
//! tonic's encoder copies each one when the reader has room for the previous one. HTTP/2 could send
//! them without that copy. But hyper takes a part before the reader has room for it, and the server
//! could not take back what the transport holds before the connection ends.

use std::{
    collections::VecDeque,
    mem,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Waker},
};

use futures_util::Stream;
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};
use tonic::Status;

use super::response::CHUNK_BYTES;
use crate::error::{EngineError, Error, Result};
use crate::grpc::{
    calls::{call::CallContext, status::status_of},
    connections::pace::{MinRate, PeerPace, lateness},
};

/// How long a reader may take.
#[derive(Clone, Copy)]
pub struct ReaderPatience {
    pub min: MinRate,
    /// When the reader must have taken all of them.
    pub deadline: Option<Instant>,
}

/// The sender's end. If it is dropped before [`Self::finish`], the reader gets an error.
pub struct ResponseSender<M> {
    queue: Arc<ResponseQueue<M>>,
    pace: Mutex<PeerPace>,
    deadline: Option<Instant>,
}

/// The reader's end, a response's body.
pub struct ResponseStream<M>(Arc<ResponseQueue<M>>);

struct ResponseQueue<M> {
    state: Mutex<UnreadMessages<M>>,
    messages_max: usize,
    /// Notified when the reader has taken a message or has gone.
    taken: Notify,
}

struct UnreadMessages<M> {
    waiting: VecDeque<M>,
    /// The number of messages that the reader has taken and the sender has not counted.
    taken: u64,
    /// What follows the last message, once the sender knows.
    end: Option<std::result::Result<(), Status>>,
    has_reader: bool,
    reader: Option<Waker>,
}

/// A queue of at most `messages_max` messages.
pub fn response_queue<M>(
    messages_max: usize,
    patience: ReaderPatience,
) -> (ResponseSender<M>, ResponseStream<M>) {
    let waiting = VecDeque::new();
    let reader = None;
    let state = UnreadMessages { waiting, taken: 0, end: None, has_reader: true, reader };
    let state = Mutex::new(state);
    let taken = Notify::new();
    let queue = Arc::new(ResponseQueue { state, messages_max, taken });
    let ReaderPatience { min, deadline } = patience;
    let pace = Mutex::new(PeerPace::new(min));
    (ResponseSender { queue: queue.clone(), pace, deadline }, ResponseStream(queue))
}

impl ReaderPatience {
    pub fn of(call: &CallContext) -> Self {
        let min = MinRate::of(&call.state.settings);
        Self { min, deadline: call.deadline.map(Instant::from_std) }
    }
}

impl<M> ResponseSender<M> {
    /// Appends a message when there is room for it.
    ///
    /// Errors: `Cancelled` if the reader has gone; `Idle` or `Deadline` if it took too long: all
    /// messages are dropped, and the reader gets that error.
    pub async fn send(&self, message: M) -> Result<()> {
        let mut message = Some(message);
        self.wait_until(|state| {
            let has_room = state.waiting.len() < self.queue.messages_max;
            if has_room {
                state.waiting.extend(message.take());
                state.wake_reader();
            }
            has_room
        })
        .await
    }

    /// Waits until the reader has gone.
    pub async fn closed(&self) {
        loop {
            let mut taken = pin!(self.queue.taken.notified());
            taken.as_mut().enable();
            if !self.queue.state.lock().has_reader {
                return;
            }
            taken.await;
        }
    }

    /// Ends the response, and waits until the reader has taken all messages. Drops those that it
    /// does not take in time; the reader gets the error instead.
    ///
    /// Errors: that of `outcome`; those of [`Self::send`].
    pub async fn finish(self, outcome: Result<()>) -> Result<()> {
        self.end(outcome.clone().map_err(status_of));
        let mut left = usize::MAX;
        while left > 0 {
            let has_progress = self.wait_until(|state| {
                let is_fewer = state.waiting.len() < left;
                left = left.min(state.waiting.len());
                is_fewer
            });
            if let Err(error) = has_progress.await {
                return outcome.and(Err(error));
            }
        }
        outcome
    }

    fn end(&self, outcome: std::result::Result<(), Status>) {
        let mut state = self.queue.state.lock();
        state.end.get_or_insert(outcome);
        state.wake_reader();
    }

    /// Waits until `is_ready`. If the reader takes too long, drops all messages.
    ///
    /// Errors: those of [`Self::send`].
    async fn wait_until(
        &self,
        mut is_ready: impl FnMut(&mut UnreadMessages<M>) -> bool,
    ) -> Result<()> {
        let begun = Instant::now();
        let mut idle_end = None;
        loop {
            let mut taken = pin!(self.queue.taken.notified());
            taken.as_mut().enable();
            {
                let mut state = self.queue.state.lock();
                if !state.has_reader {
                    return Err(Error::CANCELLED);
                }
                let mut pace = self.pace.lock();
                // Most messages are whole chunks.
                (0..mem::take(&mut state.taken)).for_each(|_| pace.takes(CHUNK_BYTES as u64));
                if is_ready(&mut state) {
                    pace.waited(begun.elapsed());
                    return Ok(());
                }
                idle_end.get_or_insert(begun + pace.time_left());
            }
            let idle_due = idle_end.unwrap_or(begun);
            let (end, error) = match self.deadline {
                Some(deadline) if deadline < idle_due => (deadline, Error::DEADLINE),
                _ => (idle_due, EngineError::Idle(self.pace.lock().min().window).into()),
            };
            if timeout_at(end, taken).await.is_err() {
                if let Error::Engine(EngineError::Idle(_)) = error
                    && let Some(late) = lateness(end, Instant::now())
                {
                    let more = self.pace.lock().take_grace(late);
                    if !more.is_zero() {
                        idle_end = Some(Instant::now() + more);
                        continue;
                    }
                }
                let mut state = self.queue.state.lock();
                let late = mem::take(&mut state.waiting);
                state.end = Some(Err(status_of(error.clone())));
                state.wake_reader();
                drop(state);
                drop(late);
                return Err(error);
            }
        }
    }
}

impl<M> Drop for ResponseSender<M> {
    fn drop(&mut self) {
        // Without an error, a response that a panic cut off would look complete.
        self.end(Err(status_of(Error::internal("the response was cut off"))));
    }
}

impl<M> UnreadMessages<M> {
    fn wake_reader(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

impl<M> Stream for ResponseStream<M> {
    type Item = std::result::Result<M, Status>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut state = self.0.state.lock();
        if let Some(message) = state.waiting.pop_front() {
            state.taken += 1;
            drop(state);
            self.0.taken.notify_waiters();
            return Poll::Ready(Some(Ok(message)));
        }
        match &mut state.end {
            Some(Ok(())) => Poll::Ready(None),
            Some(failed) => {
                let failed = mem::replace(failed, Ok(()));
                Poll::Ready(failed.err().map(Err))
            }
            None => {
                state.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl<M> Drop for ResponseStream<M> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.has_reader = false;
        let unread = mem::take(&mut state.waiting);
        drop(state);
        drop(unread);
        self.0.taken.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Weak, time::Duration};

    use futures_util::StreamExt;
    use tonic::Code;

    use super::*;

    const IDLE: Duration = Duration::from_millis(50);
    const LONG: Duration = Duration::from_secs(3600);

    fn queue(
        idle: Duration,
        deadline: Option<Instant>,
    ) -> (ResponseSender<Arc<u32>>, ResponseStream<Arc<u32>>) {
        let min = MinRate { window: idle, bytes_per_second: 1 << 40 };
        response_queue(2, ReaderPatience { min, deadline })
    }

    /// Sends two messages, which fill the queue.
    async fn fill(sender: &ResponseSender<Arc<u32>>) -> [Weak<u32>; 2] {
        let messages = [Arc::new(1), Arc::new(2)];
        let weak = messages.each_ref().map(Arc::downgrade);
        for message in messages {
            sender.send(message).await.unwrap();
        }
        weak
    }

    #[tokio::test]
    async fn messages_arrive_in_order_and_then_the_error() {
        let (sender, reader) = queue(LONG, None);
        let sending = async {
            for number in 0..100 {
                sender.send(Arc::new(number)).await.unwrap();
            }
            let finished = sender.finish(Err(Error::NOT_FOUND)).await;
            assert_eq!(finished, Err(Error::NOT_FOUND));
        };
        let (mut received, ()) = tokio::join!(reader.collect::<Vec<_>>(), sending);
        let last = received.pop().unwrap().unwrap_err();
        assert_eq!(last.code(), Code::NotFound);
        let numbers = received.into_iter().map(|message| *message.unwrap());
        assert!(numbers.eq(0..100));
    }

    #[tokio::test]
    async fn messages_that_a_stalled_reader_does_not_take_are_dropped() {
        let (sender, mut reader) = queue(IDLE, None);
        let waiting = fill(&sender).await;
        assert_eq!(sender.send(Arc::new(3)).await, Err(EngineError::Idle(IDLE).into()));
        assert!(waiting.iter().all(|message| message.strong_count() == 0));
        assert_eq!(
            sender.finish(Err(EngineError::Idle(IDLE).into())).await,
            Err(EngineError::Idle(IDLE).into())
        );
        let refused = reader.next().await.unwrap().unwrap_err();
        assert_eq!(refused.code(), Code::DeadlineExceeded);
        assert!(reader.next().await.is_none());
    }

    #[tokio::test]
    async fn messages_that_are_not_taken_after_the_end_are_dropped() {
        for deadline in [None, Some(Instant::now() + IDLE)] {
            let idle = if deadline.is_some() { LONG } else { IDLE };
            let (sender, mut reader) = queue(idle, deadline);
            let waiting = fill(&sender).await;
            assert!(sender.finish(Ok(())).await.is_err());
            assert!(waiting.iter().all(|message| message.strong_count() == 0));
            let refused = reader.next().await.unwrap();
            assert!(refused.is_err(), "an incomplete response looks complete");
        }
    }

    #[tokio::test]
    async fn messages_are_dropped_with_their_reader() {
        let (sender, reader) = queue(LONG, None);
        let waiting = fill(&sender).await;
        drop(reader);
        sender.closed().await;
        assert!(waiting.iter().all(|message| message.strong_count() == 0));
        assert_eq!(sender.send(Arc::new(3)).await, Err(Error::CANCELLED));
    }

    #[tokio::test]
    async fn a_response_that_is_cut_off_ends_with_an_error() {
        let (sender, mut reader) = queue(LONG, None);
        drop(sender);
        assert_eq!(reader.next().await.unwrap().unwrap_err().code(), Code::Internal);
    }
}
