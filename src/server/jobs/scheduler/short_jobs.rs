//! Which tenants have had jobs lately, and short ones, so that long jobs let short ones run soon.

use std::time::{Duration, Instant};

use crate::tenant::TenantId;

/// A job is short if its modelled time is at most this.
pub const SHORT_JOB_MAX: Duration = Duration::from_millis(5);

/// For this long after a short job has run, long jobs yield: longer than the pauses of a tenant
/// that sends one job after the other, and so short that rare jobs cost others little.
const YIELDING_TIME: Duration = Duration::from_millis(200);

/// A tenant is active for this long after one of its jobs has got a worker.
const ACTIVE_TIME: Duration = Duration::from_secs(1);

/// When jobs got workers.
#[derive(Debug, Default)]
pub struct ShortJobs {
    last_short: Option<Instant>,
    /// The last job.
    last: Option<(TenantId, Instant)>,
    /// The last job of another tenant than that of `last`.
    before: Option<(TenantId, Instant)>,
}

impl ShortJobs {
    pub fn record(&mut self, tenant: TenantId, is_short: bool, now: Instant) {
        if self.last.is_some_and(|(last, _)| last != tenant) {
            self.before = self.last;
        }
        self.last = Some((tenant, now));
        if is_short {
            self.last_short = Some(now);
        }
    }

    /// Whether a long job of `tenant` yields: any tenant has had a short job lately, and `tenant`
    /// is not alone. If only others yielded to a tenant with short jobs, its own long ones would
    /// get more than their share.
    pub fn are_near(&self, tenant: TenantId, now: Instant) -> bool {
        let is_recent = |at: Instant, time| now.saturating_duration_since(at) < time;
        let is_active_other =
            |&(other, at): &(TenantId, Instant)| other != tenant && is_recent(at, ACTIVE_TIME);
        self.last_short.is_some_and(|at| is_recent(at, YIELDING_TIME))
            && self.last.iter().chain(&self.before).any(is_active_other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_jobs_yield_for_a_while_after_short_ones_unless_their_tenant_is_alone() {
        let mut jobs = ShortJobs::default();
        let begun = Instant::now();
        let [a, b, c] = [1, 2, 3].map(TenantId);
        let half = YIELDING_TIME / 2;
        assert!(!jobs.are_near(a, begun));
        jobs.record(a, true, begun);
        assert!(!jobs.are_near(a, begun), "it is alone");
        assert!(jobs.are_near(b, begun + half));
        assert!(!jobs.are_near(b, begun + YIELDING_TIME), "the short job was too long ago");
        jobs.record(b, false, begun + half);
        jobs.record(b, false, begun + half);
        for tenant in [a, b, c] {
            assert!(jobs.are_near(tenant, begun + half), "{tenant:?}");
        }
        jobs.record(b, true, begun + ACTIVE_TIME);
        assert!(!jobs.are_near(b, begun + ACTIVE_TIME), "a is not active any more");
        assert!(jobs.are_near(a, begun + ACTIVE_TIME));
    }
}
