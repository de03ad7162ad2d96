//! Which tenants have had short jobs lately, so that others let these run soon.

use std::time::{Duration, Instant};

use crate::tenant::TenantId;

/// A job is short if its modelled time is at most this.
pub const SHORT_JOB_MAX: Duration = Duration::from_millis(5);

/// For this long after a short job has run, jobs of other tenants yield: longer than the pauses of
/// a tenant that sends one job after the other, and so short that rare jobs cost others little.
const YIELDING_TIME: Duration = Duration::from_millis(200);

/// The last short job of each of the two tenants that had one last. More are not needed: a tenant
/// yields to any other one.
#[derive(Debug, Default)]
pub struct ShortJobs {
    last: Option<(TenantId, Instant)>,
    /// That of another tenant than `last`.
    before: Option<(TenantId, Instant)>,
}

impl ShortJobs {
    pub fn record(&mut self, tenant: TenantId, now: Instant) {
        if self.last.is_some_and(|(last, _)| last != tenant) {
            self.before = self.last;
        }
        self.last = Some((tenant, now));
    }

    /// Whether a tenant other than `tenant` has had a short job lately.
    pub fn are_of_others(&self, tenant: TenantId, now: Instant) -> bool {
        let is_recent = |&(other, at): &(TenantId, Instant)| {
            other != tenant && now.saturating_duration_since(at) < YIELDING_TIME
        };
        self.last.iter().chain(&self.before).any(is_recent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_yield_for_a_while_to_short_jobs_of_other_tenants() {
        let (mut short_jobs, begun) = (ShortJobs::default(), Instant::now());
        let [a, b, c] = [1, 2, 3].map(TenantId);
        let half = YIELDING_TIME / 2;
        assert!(!short_jobs.are_of_others(a, begun));
        short_jobs.record(a, begun);
        assert!(!short_jobs.are_of_others(a, begun), "its own");
        assert!(short_jobs.are_of_others(b, begun + half));
        assert!(!short_jobs.are_of_others(b, begun + YIELDING_TIME));
        short_jobs.record(b, begun + half);
        short_jobs.record(b, begun + half);
        for tenant in [a, b, c] {
            assert!(short_jobs.are_of_others(tenant, begun + half), "{tenant:?}");
        }
        let later = begun + half + half;
        assert!(!short_jobs.are_of_others(b, later), "that of tenant a was too long ago");
        assert!(short_jobs.are_of_others(a, later));
    }
}
