//! Returns freed memory to the system after many connections have ended. Otherwise the allocator
//! keeps it, and a short flood stays in the daemon's resident memory.

use super::connection_limits::ConnectionLimits;

/// Fewer connections leave little memory behind.
const ENDED_MIN: u64 = 64;

/// Notes when connections end.
#[derive(Default)]
pub struct HeapTrim {
    /// Many have ended, and others may be about to.
    is_due: bool,
}

impl HeapTrim {
    /// Whether to trim now: one call after that which has found that many connections have ended.
    pub fn is_due(&mut self, connections: &ConnectionLimits) -> bool {
        std::mem::replace(&mut self.is_due, connections.has_shrunk_by(ENDED_MIN))
    }
}

/// Returns the pages of freed memory to the system, which can take milliseconds. Only glibc keeps
/// them.
#[allow(unsafe_code)]
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the function has no preconditions, and takes the allocator's locks itself.
    let _has_trimmed = unsafe { libc::malloc_trim(0) };
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::server::{ServerSettings, connection_limits::ConnectionSource};

    #[test]
    fn memory_is_returned_once_after_many_connections_have_ended() {
        let limits = ConnectionLimits::new(&ServerSettings::default());
        let connect = |count| {
            let source = ConnectionSource::Address(IpAddr::from([10, 0, 0, 1]));
            let all = (0..count).map(|_| limits.acquire(source).expect("is below the limit"));
            all.collect::<Vec<_>>()
        };
        let mut trim = HeapTrim::default();
        let (few, many) = (connect(ENDED_MIN - 1), connect(ENDED_MIN));
        assert!(!trim.is_due(&limits), "all are open");
        drop(few);
        assert!(!trim.is_due(&limits) && !trim.is_due(&limits), "few have ended");
        // Others may have connected meanwhile.
        let others = connect(1);
        drop(many);
        assert!(!trim.is_due(&limits), "others may be about to end");
        assert!(trim.is_due(&limits));
        assert!(!trim.is_due(&limits) && !trim.is_due(&limits), "they count once");
        drop((others, connect(ENDED_MIN)));
        assert!(!trim.is_due(&limits) && trim.is_due(&limits), "between two calls");
    }
}
