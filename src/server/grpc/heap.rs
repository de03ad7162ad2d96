//! Returns freed memory to the system after many connections have ended. Otherwise the allocator
//! keeps it, and a short flood stays in the daemon's resident memory.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::connections::connection_limits::ConnectionLimits;

/// Fewer connections leave little memory behind.
const ENDED_MIN: u64 = 64;

/// The pause between two trims, which take the locks of all threads' memory.
const PAUSE: Duration = Duration::from_secs(10);

/// Notes when connections end.
#[derive(Default)]
pub struct HeapTrim {
    /// Many have ended, and others may be about to.
    is_due: bool,
    /// When the last one began.
    begun: Option<Instant>,
    /// Shared with a trim that runs.
    turn: Arc<()>,
}

/// The right to trim. Held until the trim has ended.
pub struct TrimTurn {
    _turn: Arc<()>,
}

impl HeapTrim {
    /// The right to trim, one tick after many connections have ended, because others may be ending.
    /// A trim that must wait for its turn stays due.
    pub fn next(&mut self, connections: &ConnectionLimits, now: Instant) -> Option<TrimTurn> {
        let has_shrunk = connections.has_shrunk_by(ENDED_MIN);
        let is_paused = self.begun.is_some_and(|begun| now.duration_since(begun) < PAUSE);
        if !self.is_due || is_paused || Arc::strong_count(&self.turn) > 1 {
            self.is_due |= has_shrunk;
            return None;
        }
        (self.is_due, self.begun) = (has_shrunk, Some(now));
        Some(TrimTurn { _turn: self.turn.clone() })
    }
}

/// Returns the pages of freed memory to the system, which can take milliseconds. Only glibc keeps
/// them.
#[allow(unsafe_code)]
pub fn trim(turn: TrimTurn) {
    #[cfg(target_env = "gnu")]
    // SAFETY: the function has no preconditions, and takes the allocator's locks itself.
    let _has_trimmed = unsafe { libc::malloc_trim(0) };
    drop(turn);
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::grpc::{ServerSettings, connections::connection_limits::ConnectionSource};

    #[test]
    fn memory_is_returned_once_after_many_connections_have_ended() {
        let limits = ConnectionLimits::new(&ServerSettings::default());
        let connect = |count| {
            let source = ConnectionSource::Address(IpAddr::from([10, 0, 0, 1]));
            let all = (0..count).map(|_| limits.acquire(source).expect("is below the limit"));
            all.collect::<Vec<_>>()
        };
        let mut trim = HeapTrim::default();
        let mut now = Instant::now();
        let mut is_due = |limits: &_| {
            now += PAUSE;
            trim.next(limits, now).is_some()
        };
        let (few, many) = (connect(ENDED_MIN - 1), connect(ENDED_MIN));
        assert!(!is_due(&limits), "all are open");
        drop(few);
        assert!(!is_due(&limits) && !is_due(&limits), "few have ended");
        // Others may have connected meanwhile.
        let others = connect(1);
        drop(many);
        assert!(!is_due(&limits), "others may be about to end");
        assert!(is_due(&limits));
        assert!(!is_due(&limits) && !is_due(&limits), "they count once");
        drop((others, connect(ENDED_MIN)));
        assert!(!is_due(&limits) && is_due(&limits), "between two calls");
    }

    #[test]
    fn trims_pause_and_do_not_overlap() {
        let limits = ConnectionLimits::new(&ServerSettings::default());
        let end_many = || {
            let source = ConnectionSource::Address(IpAddr::from([10, 0, 0, 1]));
            let all = (0..ENDED_MIN).map(|_| limits.acquire(source).expect("is below the limit"));
            drop(all.collect::<Vec<_>>());
        };
        let mut trim = HeapTrim::default();
        let begun = Instant::now();
        end_many();
        assert!(trim.next(&limits, begun).is_none());
        let first = trim.next(&limits, begun).expect("many have ended");
        end_many();
        for after in [Duration::ZERO, PAUSE / 2, PAUSE - Duration::from_millis(1)] {
            assert!(trim.next(&limits, begun + after).is_none(), "too early: {after:?}");
        }
        assert!(trim.next(&limits, begun + PAUSE).is_none(), "the first one runs");
        drop(first);
        assert!(trim.next(&limits, begun + PAUSE).is_some());
        assert!(trim.next(&limits, begun + 3 * PAUSE).is_none());
    }
}
