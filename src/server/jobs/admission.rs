//! Admission: limits bytes and jobs in flight, in total, per tenant and per connection, before any
//! payload.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tracing::Span;

use super::{JobWork, backlog::BacklogPermit};
use crate::{
    buffer::{Quota, QuotaPermit},
    engine::JobControl,
    error::{Limit, Result},
    tenant::{DeviceTimeCharge, Tenant},
};

#[derive(Debug, Clone)]
pub struct Budget {
    /// Bytes of payload and working memory.
    pub bytes: Arc<Quota>,
    /// Jobs accepted and not yet ended.
    pub jobs: Arc<Quota>,
}

pub type AdmissionPermit = Vec<QuotaPermit>;

impl Budget {
    pub fn server(bytes_max: u64, jobs_max: u64) -> Self {
        Self {
            bytes: Quota::new(Limit::BytesInFlight, bytes_max),
            jobs: Quota::new(Limit::Jobs, jobs_max),
        }
    }

    pub fn tenant(tenant: &Tenant) -> Self {
        Self { bytes: tenant.bytes.clone(), jobs: tenant.jobs.clone() }
    }

    pub fn connection(bytes_max: u64, jobs_max: u64) -> Self {
        Self {
            bytes: Quota::new(Limit::ConnectionBytes, bytes_max),
            jobs: Quota::new(Limit::ConnectionJobs, jobs_max),
        }
    }
}

/// Takes `bytes` and `jobs` from each of `budgets`, or nothing from any.
///
/// Errors: `Exhausted`, without `retry_after` if the limit itself is too small.
pub fn admit(budgets: &[&Budget], bytes: u64, jobs: u64) -> Result<AdmissionPermit> {
    let mut permit = AdmissionPermit::with_capacity(2 * budgets.len());
    for budget in budgets {
        permit.push(budget.bytes.acquire(bytes)?);
        permit.push(budget.jobs.acquire(jobs)?);
    }
    Ok(permit)
}

/// Takes `bytes` of a small request from each of `quotas`, even if that exceeds their limits, so
/// that a full server still answers. Only the tenant's limit on such bytes refuses them.
///
/// Errors: `Exhausted`.
pub fn admit_small(tenant: &Tenant, quotas: &[Arc<Quota>], bytes: u64) -> Result<AdmissionPermit> {
    let small = tenant.small_bytes.acquire(bytes)?;
    let mut permit = charge(quotas, bytes);
    permit.push(small);
    Ok(permit)
}

/// Takes `bytes` from each of `quotas`, even if that exceeds their limits.
pub fn charge(quotas: &[Arc<Quota>], bytes: u64) -> AdmissionPermit {
    quotas.iter().map(|quota| quota.charge(bytes)).collect()
}

/// Adds the permits in `new` to those in `held`.
pub fn merge_permits(held: &mut AdmissionPermit, new: AdmissionPermit) {
    for permit in new {
        let rest = held.iter_mut().try_fold(permit, |permit, held| held.merge(permit).ok_or(()));
        held.extend(rest.ok());
    }
}

/// Leaves bytes and jobs of the server to tenants that hold few: see [`Quota::check_share`].
/// `has_others`: the server has other tenants.
///
/// Errors: `Exhausted`.
pub fn check_share(
    tenant: &Budget,
    server: &Budget,
    bytes: u64,
    jobs: u64,
    has_others: bool,
) -> Result<()> {
    if bytes > 0 {
        server.bytes.check_share(tenant.bytes.used(), bytes, has_others)?;
    }
    if jobs > 0 {
        server.jobs.check_share(tenant.jobs.used(), jobs, has_others)?;
    }
    Ok(())
}

/// What an accepted job holds until it has ended.
pub struct JobPermit {
    /// Declared before `_quotas`: a job that no longer counts has no time ahead of others.
    pub backlog: BacklogPermit,
    pub _quotas: AdmissionPermit,
    pub device_time: DeviceTimeCharge,
}

/// A job with its permit, which is returned after the job's memory is freed, even if the caller
/// disconnects earlier.
pub struct AdmittedJob<W> {
    work: W,
    /// Time of workers.
    run: Duration,
    /// Declared after `work`, so that it is dropped after it.
    permit: JobPermit,
}

impl<W> AdmittedJob<W> {
    pub fn new(work: W, mut permit: JobPermit) -> Self {
        permit.device_time.keep();
        Self { work, run: Duration::ZERO, permit }
    }
}

impl<W: JobWork> JobWork for AdmittedJob<W> {
    type Output = W::Output;

    fn is_ready(&self) -> bool {
        self.work.is_ready()
    }

    fn is_short(&self) -> bool {
        self.work.is_short()
    }

    fn is_computed(&self) -> bool {
        self.work.is_computed()
    }

    fn step(&mut self, control: &JobControl) -> Result<Option<W::Output>> {
        let begun = Instant::now();
        let output = self.work.step(control)?;
        self.run += begun.elapsed();
        if let Some(output) = &output
            && W::charged_time(output, self.run) == self.run
        {
            self.permit.backlog.learn(self.run);
        }
        Ok(output)
    }

    fn charged_time(output: &W::Output, step: Duration) -> Duration {
        W::charged_time(output, step)
    }

    fn span(&self, id: u64) -> Span {
        self.work.span(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        error::{EngineError, Error},
        tenant::{TenantId, TenantLimits, TenantName},
    };

    #[test]
    fn tenants_that_take_all_they_can_leave_jobs_to_one_that_has_few() {
        let server = Budget::server(1 << 30, 256);
        let tenant = || Budget::connection(1 << 30, 256);
        let take = |tenant: &Budget| {
            check_share(tenant, &server, 1, 1, true).and_then(|()| admit(&[tenant, &server], 1, 1))
        };
        let flooding: Vec<_> = (0..9).map(|_| tenant()).collect();
        let mut held: Vec<_> = (0..256).flat_map(|_| flooding.iter().flat_map(take)).collect();
        assert!((27..=28).contains(&flooding[0].jobs.used()), "{}", flooding[0].jobs.used());
        let other = tenant();
        held.extend((0..8).map(|_| take(&other).expect("little is held")));
        // They are not alone, so those that hold much wait.
        assert!(flooding.iter().all(|tenant| take(tenant).is_err()));
    }

    #[test]
    fn a_tenant_that_takes_all_it_can_leaves_room_to_others_if_there_are_any() {
        let budget = || Budget::connection(1 << 30, 256);
        let take = |tenant: &Budget, server: &Budget, has_others| {
            let share = check_share(tenant, server, 1, 1, has_others);
            share.and_then(|()| admit(&[tenant, server], 1, 1))
        };
        for (has_others, jobs) in [(false, 256), (true, 240)] {
            let server = Budget::server(1 << 30, 256);
            let flooding = budget();
            let other = budget();
            let held: Vec<_> =
                (0..300).flat_map(|_| take(&flooding, &server, has_others)).collect();
            assert_eq!(held.len(), jobs);
            let found = take(&other, &server, has_others);
            assert_eq!(found.is_ok(), has_others, "the first job of another tenant");
            assert!(take(&flooding, &server, has_others).is_err());
        }
        // A single request may need everything.
        let server = Budget::server(100, 256);
        let tenant = Budget::connection(100, 256);
        assert!(check_share(&tenant, &server, 100, 1, true).is_ok());
    }

    #[test]
    fn many_small_permits_take_the_memory_of_one() {
        let tenant = Tenant::new(TenantId(1), TenantName::default(), &TenantLimits::default());
        let quotas = [(); 2].map(|()| Quota::new(Limit::BytesInFlight, 100));
        let used = || quotas.each_ref().map(|quota| quota.used());
        let mut held = AdmissionPermit::new();
        for _ in 0..1000 {
            merge_permits(&mut held, admit_small(&tenant, &quotas, 7).unwrap());
        }
        assert_eq!((held.len(), used(), tenant.small_bytes.used()), (3, [7000; 2], 7000));
        assert!(admit_small(&tenant, &quotas, 16 << 20).is_err(), "more than a tenant may have");
        assert_eq!(used(), [7000; 2], "a refusal takes nothing");
        drop(held);
        assert_eq!((used(), tenant.small_bytes.used()), ([0; 2], 0));
    }

    #[test]
    fn a_refusal_takes_nothing_and_a_drop_returns_everything() {
        let whole = Budget::server(100, 3);
        let (one, two) = (Budget::connection(60, 2), Budget::connection(60, 2));
        let used = |budget: &Budget| (budget.bytes.used(), budget.jobs.used());
        let first = admit(&[&one, &whole], 50, 1).unwrap();
        let refusals = [
            (&one, 20, 0, Limit::ConnectionBytes, true),
            (&one, 61, 0, Limit::ConnectionBytes, false),
            (&one, 0, 2, Limit::ConnectionJobs, true),
            (&two, 51, 0, Limit::BytesInFlight, true),
        ];
        for (connection, bytes, jobs, expected, again) in refusals {
            let Err(Error::Engine(EngineError::Exhausted { limit, retry_after })) =
                admit(&[connection, &whole], bytes, jobs)
            else {
                panic!("admitted {bytes} bytes and {jobs} jobs");
            };
            assert_eq!((limit, retry_after.is_some()), (expected, again));
            assert_eq!((used(&whole), used(&one), used(&two)), ((50, 1), (50, 1), (0, 0)));
        }
        let second = admit(&[&two, &whole], 50, 2).unwrap();
        drop((first, second));
        assert_eq!((used(&whole), used(&one), used(&two)), ((0, 0), (0, 0), (0, 0)));
    }
}
