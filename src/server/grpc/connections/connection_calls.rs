//! The calls of a connection, and when it is closed: if it has no call for a while, is too old, or
//! does not read its responses.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::time::{Sleep, sleep};

/// The calls of one connection. Clones count together.
#[derive(Debug, Clone)]
pub struct ConnectionCalls(Arc<Mutex<CallCount>>);

#[derive(Debug)]
struct CallCount {
    open: u32,
    /// When the last call ended, or the connection began.
    last_end: Instant,
    is_closed: bool,
    /// Wakes the connection when it is to be closed.
    connection: Option<Waker>,
}

/// Counts a call as open until it is dropped.
pub struct OpenCall(ConnectionCalls);

/// Ends a connection that has had no call for a time, is too old, or does not read its responses.
pub struct ConnectionTimer {
    calls: ConnectionCalls,
    idle_max: Duration,
    end: Instant,
    timer: Pin<Box<Sleep>>,
}

impl Default for ConnectionCalls {
    fn default() -> Self {
        let last_end = Instant::now();
        let is_closed = false;
        let connection = None;
        Self(Arc::new(Mutex::new(CallCount { open: 0, last_end, is_closed, connection })))
    }
}

impl ConnectionCalls {
    pub fn begin(&self) -> OpenCall {
        self.0.lock().open += 1;
        OpenCall(self.clone())
    }

    /// Closes the connection, whatever calls it has. Returns whether it was open.
    pub fn close(&self) -> bool {
        let mut count = self.0.lock();
        if let Some(connection) = count.connection.take() {
            connection.wake();
        }
        !std::mem::replace(&mut count.is_closed, true)
    }

    /// Whether the connection is to be closed. If not, [`Self::close`] wakes it.
    fn poll_closed(&self, context: &Context<'_>) -> bool {
        let mut count = self.0.lock();
        match &mut count.connection {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        count.is_closed
    }

    /// Time since the last call ended; zero during a call.
    fn idle(&self) -> Duration {
        let count = self.0.lock();
        if count.open > 0 { Duration::ZERO } else { count.last_end.elapsed() }
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        let mut count = self.0.0.lock();
        count.open -= 1;
        count.last_end = Instant::now();
    }
}

impl ConnectionTimer {
    /// A timer for a connection that begins now and may last for `age_max`.
    pub fn new(calls: ConnectionCalls, idle_max: Duration, age_max: Duration) -> Self {
        let timer = Box::pin(sleep(idle_max.min(age_max)));
        Self { calls, idle_max, end: Instant::now() + age_max, timer }
    }

    /// Ready when there has been no call for the maximum time: as if the peer had closed the
    /// connection. `TimedOut`, whatever calls it has, when the connection is too old or does not
    /// read its responses.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.calls.poll_closed(context) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        loop {
            ready!(self.timer.as_mut().poll(context));
            let age_left = self.end.saturating_duration_since(Instant::now());
            if age_left.is_zero() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            let idle_left = self.idle_max.saturating_sub(self.calls.idle());
            if idle_left.is_zero() {
                return Poll::Ready(Ok(()));
            }
            self.timer.as_mut().reset(tokio::time::Instant::now() + idle_left.min(age_left));
        }
    }
}
