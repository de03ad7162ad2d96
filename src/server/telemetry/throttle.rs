//! Limits how often a recurring event is logged.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The shortest time between two log lines about the same kind of event.
const INTERVAL: Duration = Duration::from_secs(10);

/// Lets one log line pass per interval: events that a peer causes must not fill the log.
pub(crate) struct LogThrottle(Mutex<ThrottleState>);

struct ThrottleState {
    last: Option<Instant>,
    suppressed: u64,
}

impl LogThrottle {
    pub const fn new() -> Self {
        Self(Mutex::new(ThrottleState { last: None, suppressed: 0 }))
    }

    /// The number of events that were not logged since the last one that was, if this one may be
    /// logged.
    pub fn pass(&self) -> Option<u64> {
        self.pass_at(Instant::now())
    }

    fn pass_at(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock();
        if state.last.is_some_and(|last| now.saturating_duration_since(last) < INTERVAL) {
            state.suppressed += 1;
            return None;
        }
        state.last = Some(now);
        Some(std::mem::take(&mut state.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_event_per_interval_passes_and_tells_how_many_did_not() {
        let (throttle, begun) = (LogThrottle::new(), Instant::now());
        assert_eq!(throttle.pass_at(begun), Some(0));
        for _ in 0..3 {
            assert_eq!(throttle.pass_at(begun + INTERVAL / 2), None);
        }
        assert_eq!(throttle.pass_at(begun + INTERVAL), Some(3));
        assert_eq!(throttle.pass_at(begun + INTERVAL), None);
    }
}
