//! How fast a peer must send or read. Only the time for which the server waits for it counts: not
//! the time of a job, and not that of a server that is itself late.

use std::{pin::Pin, time::Duration};

use tokio::time::{Instant, Sleep, sleep};

use crate::error::{EngineError, Result};
use crate::settings::ServerSettings;

/// A server whose timer fires later than this is slow itself, and gives the peer as much time.
const LATENESS_MIN: Duration = Duration::from_millis(100);

/// Delays of the server that are forgiven to a peer that is not known to be fast enough, in windows
/// of [`MinRate`].
const GRACE_WINDOWS: u32 = 10;

/// The slowest peer that is served.
#[derive(Debug, Clone, Copy)]
pub struct MinRate {
    /// The rate is an average over this time. A silent peer is given up after it.
    pub window: Duration,
    pub bytes_per_second: u64,
}

impl MinRate {
    pub fn of(settings: &ServerSettings) -> Self {
        let bytes_per_second = settings.peer_bytes_per_second_min;
        Self { window: settings.idle_timeout, bytes_per_second }
    }

    pub fn time_for(self, bytes: u64) -> Duration {
        Duration::from_secs_f64(bytes as f64 / self.bytes_per_second.max(1) as f64)
    }

    fn is_reached_by(self, bytes: u64) -> bool {
        self.time_for(bytes) >= self.window
    }
}

/// The bytes of a peer, and the time for which the server waited for them, since it was last known
/// to be fast enough.
#[derive(Debug)]
pub struct PeerPace {
    min: MinRate,
    bytes: u64,
    waited: Duration,
    /// How much more of the server's own delays are not counted. A server that is always late must
    /// give up a peer at last.
    grace: Duration,
}

impl PeerPace {
    pub fn new(min: MinRate) -> Self {
        Self { min, bytes: 0, waited: Duration::ZERO, grace: GRACE_WINDOWS * min.window }
    }

    pub fn min(&self) -> MinRate {
        self.min
    }

    /// The peer has sent bytes.
    pub fn sent(&mut self, bytes: u64) {
        self.bytes += bytes;
        if self.min.is_reached_by(self.bytes) {
            *self = Self::new(self.min);
        }
    }

    /// The peer has room for a part of a response, which it begins to read. What it has read of the
    /// part shows only when it takes the next one.
    pub fn takes(&mut self, bytes: u64) {
        if self.min.is_reached_by(self.bytes) {
            *self = Self::new(self.min);
        }
        self.bytes += bytes;
    }

    /// The server has waited for the peer. A wait that is longer than [`Self::time_left`] counts as
    /// a delay of the server, which would have given up.
    pub fn waited(&mut self, time: Duration) {
        let is_late = time > self.time_left() + LATENESS_MIN;
        let forgiven = if is_late { self.take_grace(time) } else { Duration::ZERO };
        self.waited += time - forgiven;
    }

    /// The part of a delay of the server that the peer gets as more time.
    pub fn take_grace(&mut self, late: Duration) -> Duration {
        let given = late.min(self.grace);
        self.grace -= given;
        given
    }

    /// How much longer the server waits for the peer.
    pub fn time_left(&self) -> Duration {
        self.min.window.max(self.min.time_for(self.bytes)).saturating_sub(self.waited)
    }
}

/// How much longer a server waits whose timer has fired at `now` instead of at `due`; `None` if it
/// was not late.
pub fn lateness(due: Instant, now: Instant) -> Option<Duration> {
    Some(now.saturating_duration_since(due)).filter(|late| *late > LATENESS_MIN)
}

/// The pace of a sender, with a timer. There is one timer per stream, not per message: setting it
/// wakes the thread that waits for sockets.
pub struct SenderPace {
    pace: PeerPace,
    wait_began: Instant,
    timer: Pin<Box<Sleep>>,
}

impl SenderPace {
    /// Begins to wait for the sender.
    pub fn new(min: MinRate) -> Self {
        let pace = PeerPace::new(min);
        let timer = Box::pin(sleep(pace.time_left()));
        Self { pace, wait_began: Instant::now(), timer }
    }

    /// Counts bytes that have arrived.
    pub fn sent(&mut self, bytes: u64) {
        self.pace.sent(bytes);
    }

    /// Counts the time since the last call as waiting.
    pub fn count_wait(&mut self) {
        self.count_wait_at(Instant::now());
    }

    fn count_wait_at(&mut self, now: Instant) {
        self.pace.waited(now.saturating_duration_since(self.wait_began));
        self.wait_began = now;
    }

    /// Does not count the time since [`Self::count_wait`]: the server used what had arrived.
    pub fn skip_time(&mut self) {
        self.wait_began = Instant::now();
    }

    pub fn is_late(&self) -> bool {
        self.pace.time_left().is_zero()
    }

    /// A timer that fires when the sender may be too slow. Then call [`Self::check`].
    pub fn timer(&mut self) -> Pin<&mut Sleep> {
        self.timer.as_mut()
    }

    /// Called after the timer has fired; sets it again. `bytes` have arrived and are not counted
    /// yet.
    ///
    /// Errors: `Idle` if the sender is too slow.
    pub fn check(&mut self, bytes: u64) -> Result<()> {
        let now = Instant::now();
        let next = self.next_check(now, bytes).ok_or_else(|| self.error())?;
        self.timer.as_mut().reset(next);
        Ok(())
    }

    /// When to check again after a timer that fired at `now`; `None` if the sender is too slow.
    fn next_check(&mut self, now: Instant, bytes: u64) -> Option<Instant> {
        let due = self.timer.deadline();
        // The time by which the timer was late is the server's.
        self.pace.waited += due.saturating_duration_since(self.wait_began);
        self.wait_began = now;
        self.pace.sent(bytes);
        let late = self.pace.take_grace(lateness(due, now).unwrap_or_default());
        let more = self.pace.time_left().max(late);
        (!more.is_zero()).then(|| now + more)
    }

    /// The refusal of a sender that is too slow.
    pub fn error(&self) -> EngineError {
        EngineError::Idle(self.pace.min.window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN: MinRate = MinRate { window: Duration::from_secs(10), bytes_per_second: 1000 };
    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_sender_must_reach_the_rate_in_each_window() {
        let mut pace = PeerPace::new(MIN);
        for _ in 0..100 {
            // A little faster than the rate, in bursts.
            pace.waited(9 * SECOND);
            assert!(!pace.time_left().is_zero());
            pace.sent(10_000);
            assert_eq!(pace.time_left(), MIN.window, "what was sent before is no credit");
        }
        // A little slower.
        for _ in 0..9 {
            pace.waited(SECOND);
            pace.sent(999);
        }
        assert_eq!(pace.time_left(), SECOND);
        pace.waited(SECOND);
        assert!(pace.time_left().is_zero());
    }

    #[test]
    fn a_reader_has_time_for_the_part_that_it_reads() {
        let mut pace = PeerPace::new(MIN);
        pace.takes(100);
        assert_eq!(pace.time_left(), MIN.window);
        // 25 s at the minimum rate.
        pace.takes(24_900);
        assert_eq!(pace.time_left(), 25 * SECOND);
        pace.waited(20 * SECOND);
        pace.takes(25_000);
        assert_eq!(pace.time_left(), 25 * SECOND, "it was fast enough so far");
        // Parts that are shorter than a window's are counted together.
        for part in 0..9 {
            pace.waited(SECOND);
            pace.takes(if part == 0 { 900 } else { 800 });
        }
        assert_eq!(pace.time_left(), 2 * SECOND, "{pace:?}");
    }

    #[test]
    fn a_wait_that_the_server_did_not_end_in_time_does_not_count() {
        let mut pace = PeerPace::new(MIN);
        pace.waited(4 * SECOND);
        pace.waited(7 * SECOND);
        assert_eq!(pace.time_left(), 6 * SECOND);
        pace.waited(6 * SECOND);
        assert!(pace.time_left().is_zero());
    }

    #[test]
    fn a_server_that_is_always_late_gives_up_at_last() {
        let mut pace = PeerPace::new(MIN);
        for _ in 0..GRACE_WINDOWS / 2 {
            pace.waited(2 * MIN.window);
            assert_eq!(pace.time_left(), MIN.window);
        }
        pace.waited(2 * MIN.window);
        assert!(pace.time_left().is_zero());
    }

    #[tokio::test]
    async fn time_that_a_sender_is_not_waited_for_does_not_count() {
        let mut pace = SenderPace::new(MIN);
        let mut now = pace.wait_began;
        let due = pace.timer.deadline();
        for _ in 0..10 {
            now += SECOND / 2;
            pace.count_wait_at(now);
            // The server copies for a long time.
            now += SECOND / 2;
            pace.wait_began = now;
        }
        assert_eq!(pace.next_check(due, 0), Some(due + 5 * SECOND));
        pace.timer.as_mut().reset(due + 5 * SECOND);
        assert_eq!(pace.next_check(due + 5 * SECOND, 9_999), None);
    }

    #[tokio::test]
    async fn bytes_of_an_unfinished_message_count() {
        let mut pace = SenderPace::new(MIN);
        for _ in 0..10 {
            let due = pace.timer.deadline();
            assert_eq!(pace.next_check(due, 10_000), Some(due + MIN.window));
            pace.timer.as_mut().reset(due + MIN.window);
        }
        let due = pace.timer.deadline();
        assert_eq!(pace.next_check(due, 9_999), None);
    }

    #[tokio::test]
    async fn a_server_that_is_late_gives_the_sender_more_time() {
        let mut pace = SenderPace::new(MIN);
        // As if the process had been stopped.
        let now = pace.timer.deadline() + 7 * SECOND;
        let next = now + 7 * SECOND;
        assert_eq!(pace.next_check(now, 0), Some(next));
        pace.timer.as_mut().reset(next);
        assert_eq!(pace.next_check(next, 0), None);
    }
}
