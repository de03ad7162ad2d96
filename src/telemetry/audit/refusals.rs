//! Limits lines about refusals, which strangers cause: they must not fill the disk.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

/// The time to which the limits apply. With lines of 300 bytes, 26 MB a day at most.
const WINDOW: Duration = Duration::from_secs(10);

/// Lines per window. Each is about another address, so that one stranger cannot hide others.
const LINES_MAX: usize = 10;

/// Lets at most one event per address and window pass, and `LINES_MAX` per window.
pub struct RefusalLimit(Mutex<RefusalWindow>);

struct RefusalWindow {
    begun: Option<Instant>,
    /// The peers of the lines in this window; `None` for the Unix socket.
    written: Vec<Option<IpAddr>>,
    suppressed: u64,
}

impl RefusalLimit {
    pub const fn new() -> Self {
        Self(Mutex::new(RefusalWindow { begun: None, written: Vec::new(), suppressed: 0 }))
    }

    /// The number of events suppressed since the last one that passed, if this one passes.
    pub fn pass(&self, address: Option<IpAddr>) -> Option<u64> {
        self.pass_at(address, Instant::now())
    }

    /// The number of events suppressed since the last one that passed.
    pub fn take_suppressed(&self) -> u64 {
        std::mem::take(&mut self.0.lock().suppressed)
    }

    fn pass_at(&self, address: Option<IpAddr>, now: Instant) -> Option<u64> {
        let address = address.map(|address| address.to_canonical());
        let mut window = self.0.lock();
        let is_over = |begun| now.saturating_duration_since(begun) >= WINDOW;
        if window.begun.is_none_or(is_over) {
            window.begun = Some(now);
            window.written.clear();
        }
        if window.written.len() == LINES_MAX || window.written.contains(&address) {
            window.suppressed += 1;
            return None;
        }
        window.written.push(address);
        Some(std::mem::take(&mut window.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_per_address_and_few_per_window() {
        let (limit, begun) = (RefusalLimit::new(), Instant::now());
        let from = |address: &str| Some(address.parse().unwrap());
        assert_eq!(limit.pass_at(from("10.0.0.1"), begun), Some(0));
        assert_eq!(limit.pass_at(from("::ffff:10.0.0.1"), begun + WINDOW / 2), None);
        assert_eq!(limit.pass_at(from("10.0.0.2"), begun), Some(1));
        assert_eq!(limit.pass_at(None, begun), Some(0));
        let passed = |at| {
            let from = (0..100_u8).map(|last| Some(IpAddr::from([10, 1, 0, last])));
            from.filter(|address| limit.pass_at(*address, at).is_some()).count()
        };
        assert_eq!(passed(begun), LINES_MAX - 3);
        assert_eq!(limit.pass_at(from("10.0.0.1"), begun + WINDOW), Some(93));
        assert_eq!(passed(begun + WINDOW), LINES_MAX - 1);
        assert_eq!((limit.take_suppressed(), limit.take_suppressed()), (91, 0));
    }
}
