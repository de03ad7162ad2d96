//! Counts and logs callers without valid credentials.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::{error::CredentialProblem, telemetry};

/// Minimum interval between warnings about refused credentials.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// Warnings about refused credentials, limited so that nobody can fill the log.
#[derive(Default)]
pub struct RefusalLog(Mutex<RecentRefusals>);

#[derive(Default)]
struct RecentRefusals {
    warned: Option<Instant>,
    /// Refusals since then.
    unlogged: u64,
}

impl RefusalLog {
    /// Counts a refused caller, and logs it if no other was logged recently.
    pub fn record(&self, problem: CredentialProblem, remote: Option<SocketAddr>) {
        telemetry::count_refused_credentials(problem.reason());
        let Some(unlogged) = self.0.lock().begin_warning(Instant::now()) else { return };
        let remote = remote.map(tracing::field::display);
        tracing::warn!(%problem, remote, unlogged, "refused a caller without valid credentials");
    }
}

impl RecentRefusals {
    /// Counts a refusal. Returns the number of earlier ones that were not logged, if this one is.
    fn begin_warning(&mut self, now: Instant) -> Option<u64> {
        if self.warned.is_some_and(|warned| now.duration_since(warned) < WARNING_INTERVAL) {
            self.unlogged += 1;
            return None;
        }
        self.warned = Some(now);
        Some(std::mem::take(&mut self.unlogged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warns_once_per_interval_and_tells_how_many_it_left_out() {
        let (mut recent, begun) = (RecentRefusals::default(), Instant::now());
        assert_eq!(recent.begin_warning(begun), Some(0));
        assert_eq!(recent.begin_warning(begun), None);
        assert_eq!(recent.begin_warning(begun + WARNING_INTERVAL / 2), None);
        assert_eq!(recent.begin_warning(begun + WARNING_INTERVAL), Some(2));
        assert_eq!(recent.begin_warning(begun + 2 * WARNING_INTERVAL), Some(0));
    }
}
