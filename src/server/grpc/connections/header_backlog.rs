//! Pauses a connection whose calls arrive faster than they are looked at: until then, nothing
//! counts the memory of their metadata, whoever sends them.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use parking_lot::Mutex;
use tokio::task::{JoinHandle, yield_now};

/// Calls of a connection that have arrived and that nothing has looked at. Each takes up to 50 KiB.
const WAITING_MAX: u32 = 2;

/// How often the runtime runs all tasks that are ready before calls are taken for refused.
const ROUNDS: usize = 4;

/// The calls of one connection that wait to be looked at. Clones count together.
#[derive(Debug, Clone, Default)]
pub struct HeaderBacklog(Arc<Mutex<WaitingCalls>>);

#[derive(Debug, Default)]
struct WaitingCalls {
    count: u32,
    /// Wakes the connection when there are fewer.
    connection: Option<Waker>,
}

impl HeaderBacklog {
    /// Counts a call that has arrived. Returns whether there is room for another one.
    pub fn arrive(&self) -> bool {
        let mut waiting = self.0.lock();
        waiting.count += 1;
        waiting.count < WAITING_MAX
    }

    /// Counts a call that is looked at.
    pub fn begin(&self) {
        let mut waiting = self.0.lock();
        waiting.count = waiting.count.saturating_sub(1);
        if let Some(connection) = waiting.connection.take() {
            connection.wake();
        }
    }

    /// Whether another call may arrive. If not, [`Self::begin`] wakes the connection.
    fn has_room(&self, context: &Context<'_>) -> bool {
        let mut waiting = self.0.lock();
        let has_room = waiting.count < WAITING_MAX;
        waiting.connection = (!has_room).then(|| context.waker().clone());
        has_room
    }
}

/// Holds back what a connection reads while too many of its calls wait.
#[derive(Default)]
pub struct BacklogGate {
    backlog: HeaderBacklog,
    /// Ends when the runtime has run all tasks that were ready, so that no call waits any more: the
    /// transport may have refused some.
    round: Option<JoinHandle<()>>,
}

impl BacklogGate {
    pub fn new(backlog: HeaderBacklog) -> Self {
        Self { backlog, round: None }
    }

    pub fn poll_open(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.backlog.has_room(context) {
            self.round = None;
            return Poll::Ready(());
        }
        let round = self.round.get_or_insert_with(|| {
            tokio::spawn(async {
                for _ in 0..ROUNDS {
                    yield_now().await;
                }
            })
        });
        if Pin::new(round).poll(context).is_pending() {
            return Poll::Pending;
        }
        self.round = None;
        self.backlog.0.lock().count = 0;
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test]
    async fn a_connection_waits_until_its_calls_are_looked_at() {
        let backlog = HeaderBacklog::default();
        let mut gate = BacklogGate::new(backlog.clone());
        assert!(poll_fn(|context| Poll::Ready(gate.poll_open(context))).await.is_ready());
        assert!(backlog.arrive());
        assert!(!backlog.arrive());
        assert!(poll_fn(|context| Poll::Ready(gate.poll_open(context))).await.is_pending());
        backlog.begin();
        assert!(poll_fn(|context| Poll::Ready(gate.poll_open(context))).await.is_ready());
    }

    #[tokio::test]
    async fn calls_that_the_transport_refuses_hold_up_the_connection_for_a_moment() {
        let backlog = HeaderBacklog::default();
        let mut gate = BacklogGate::new(backlog.clone());
        while backlog.arrive() {}
        poll_fn(|context| gate.poll_open(context)).await;
        assert!(backlog.arrive(), "the refused calls are forgotten");
        // A call that is looked at late does no harm.
        (0..WAITING_MAX + 2).for_each(|_| backlog.begin());
        assert!(backlog.arrive());
    }
}
