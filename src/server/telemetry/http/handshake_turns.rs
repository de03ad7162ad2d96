//! Turns of TLS handshakes, which share one thread with everything else of the listener.

use std::{future::poll_fn, pin::pin, task::Poll};

use tokio::{sync::Mutex, task::yield_now};

/// Lets handshakes compute one step at a time, in the order in which they ask. A step takes up to
/// some milliseconds, for a signature (`benches/experiments/hostile.md`).
#[derive(Default)]
pub struct HandshakeTurns(Mutex<()>);

impl HandshakeTurns {
    /// Completes a handshake. Between any two steps of handshakes, the other tasks of the thread
    /// have a turn: new connections are accepted and requests are answered.
    pub async fn complete<T>(&self, handshake: impl Future<Output = T>) -> T {
        let mut handshake = pin!(handshake);
        loop {
            let mut turn = Some(self.0.lock().await);
            yield_now().await;
            let step = poll_fn(|context| match turn.take() {
                Some(_turn) => handshake.as_mut().poll(context).map(Some),
                // Bytes have arrived: the next step needs another turn.
                None => Poll::Ready(None),
            });
            if let Some(completed) = step.await {
                return completed;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering::SeqCst},
        },
        task::Context,
    };

    use tokio::{runtime::Builder, task::JoinSet};

    use super::*;

    /// Steps of a handshake in the test.
    const STEPS: usize = 3;

    #[test]
    fn other_tasks_run_between_any_two_steps_of_many_handshakes() {
        let (turns, steps) = (Arc::new(HandshakeTurns::default()), Arc::new(AtomicUsize::new(0)));
        let runtime = Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut handshakes = JoinSet::new();
            for _ in 0..32 {
                let (turns, all) = (turns.clone(), steps.clone());
                let mut own = 0;
                let handshake = poll_fn(move |context| {
                    all.fetch_add(1, SeqCst);
                    own += 1;
                    // The peer answers at once.
                    context.waker().wake_by_ref();
                    if own == STEPS { Poll::Ready(()) } else { Poll::Pending }
                });
                handshakes.spawn(async move { turns.complete(handshake).await });
            }
            let mut seen = 0;
            while steps.load(SeqCst) < 32 * STEPS {
                yield_now().await;
                let now = steps.load(SeqCst);
                assert!(now - seen <= 1, "{} steps in a row", now - seen);
                seen = now;
            }
            handshakes.join_all().await;
        });
    }

    #[test]
    fn a_handshake_that_is_given_up_returns_its_turn() {
        let turns = HandshakeTurns::default();
        let runtime = Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            // Given up while it has the turn, and while it waits for bytes.
            for polls in 1..=2 {
                let mut silent = Box::pin(turns.complete(std::future::pending::<()>()));
                let poll = |context: &mut Context<'_>| {
                    for _ in 0..polls {
                        assert!(silent.as_mut().poll(context).is_pending());
                    }
                    Poll::Ready(())
                };
                poll_fn(poll).await;
                drop(silent);
                assert_eq!(turns.complete(std::future::ready(7)).await, 7);
            }
        });
    }
}
