//! Busy polling: a thread polls for a short time before it sleeps, since waking an idle processor
//! takes 15 to 60 us (`benches/experiments/transport.md`).

use std::{
    hint,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

/// With fewer processors, threads with work need all of them.
const PROCESSORS_MIN: usize = 8;

/// Lets one thread at a time poll, so that polling occupies at most one processor. The default
/// never polls.
#[derive(Default)]
pub struct BusyPoll {
    time: Duration,
    is_polling: AtomicBool,
}

impl BusyPoll {
    /// Polls for at most `time`; not at all on a small machine.
    pub fn new(time: Duration) -> Self {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let time = if processors < PROCESSORS_MIN { Duration::ZERO } else { time };
        Self { time, is_polling: AtomicBool::new(false) }
    }

    /// Returns when `is_ready` does, or after the time, or at once if another thread polls.
    pub fn wait(&self, mut is_ready: impl FnMut() -> bool) {
        if self.time.is_zero() || self.is_polling.swap(true, Ordering::Acquire) {
            return;
        }
        let begun = Instant::now();
        while !is_ready() && begun.elapsed() < self.time {
            hint::spin_loop();
        }
        self.is_polling.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn polling(time: Duration) -> BusyPoll {
        BusyPoll { time, is_polling: AtomicBool::new(false) }
    }

    #[test]
    fn one_thread_at_a_time_polls_until_it_is_ready() {
        let poll = polling(Duration::from_secs(3600));
        let (mut polls, mut polls_of_other) = (0, 0);
        poll.wait(|| {
            // As another thread would.
            poll.wait(|| {
                polls_of_other += 1;
                true
            });
            polls += 1;
            polls == 3
        });
        poll.wait(|| true);
        assert_eq!((polls, polls_of_other), (3, 0));
    }

    #[test]
    fn polling_ends_with_the_time() {
        polling(Duration::from_millis(1)).wait(|| false);
        polling(Duration::ZERO).wait(|| panic!("polls"));
    }
}
