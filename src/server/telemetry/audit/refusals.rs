//! Limits lines about refusals, which strangers cause: they must not fill the disk.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The time to which the limits apply. With lines of 300 bytes, 26 MB a day at most.
const WINDOW: Duration = Duration::from_secs(10);

/// Lines per window. Each is about another peer, so that one stranger cannot hide others.
const LINES_MAX: usize = 10;

/// Lets at most one event per peer and window pass, and `LINES_MAX` per window.
pub struct RefusalLimit(Mutex<RefusalWindow>);

struct RefusalWindow {
    begun: Option<Instant>,
    /// The peers of the lines in this window.
    written: Vec<String>,
    suppressed: u64,
}

impl RefusalLimit {
    pub const fn new() -> Self {
        Self(Mutex::new(RefusalWindow { begun: None, written: Vec::new(), suppressed: 0 }))
    }

    /// The number of events suppressed since the last one that passed, if this one passes. `peer`
    /// is the caller, if it is known, or its network.
    pub fn pass(&self, peer: String) -> Option<u64> {
        self.pass_at(peer, Instant::now())
    }

    /// The number of events suppressed since the last one that passed.
    pub fn take_suppressed(&self) -> u64 {
        std::mem::take(&mut self.0.lock().suppressed)
    }

    fn pass_at(&self, peer: String, now: Instant) -> Option<u64> {
        let mut window = self.0.lock();
        let is_over = |begun| now.saturating_duration_since(begun) >= WINDOW;
        if window.begun.is_none_or(is_over) {
            window.begun = Some(now);
            window.written.clear();
        }
        if window.written.len() == LINES_MAX || window.written.contains(&peer) {
            window.suppressed += 1;
            return None;
        }
        window.written.push(peer);
        Some(std::mem::take(&mut window.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_per_peer_and_few_per_window() {
        let (limit, begun) = (RefusalLimit::new(), Instant::now());
        let pass = |peer: &str, at| limit.pass_at(peer.to_owned(), at);
        assert_eq!(pass("10.0.0.1", begun), Some(0));
        assert_eq!(pass("10.0.0.1", begun + WINDOW / 2), None);
        assert_eq!(pass("10.0.0.2", begun), Some(1));
        assert_eq!(pass("token:ci", begun), Some(0));
        let passed = |at| (0..100).filter(|peer| pass(&peer.to_string(), at).is_some()).count();
        assert_eq!(passed(begun), LINES_MAX - 3);
        assert_eq!(pass("10.0.0.1", begun + WINDOW), Some(93));
        assert_eq!(passed(begun + WINDOW), LINES_MAX - 1);
        assert_eq!((limit.take_suppressed(), limit.take_suppressed()), (91, 0));
    }
}
