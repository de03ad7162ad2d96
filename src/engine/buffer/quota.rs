//! Budgets for bytes, jobs and uploads.
//!
//! Tenants leave room in the server's budgets to others: if several have bytes or jobs in flight,
//! each may hold twice what is free (dynamic thresholds). Fair queueing alone does not help a
//! tenant whose jobs are refused because others fill the queue.

use std::{sync::Arc, time::Duration};

use crate::{
    error::{Error, Limit, Result},
    sync::atomic::{AtomicU64, Ordering},
};

/// When to retry on a full server: about the duration of a medium job.
pub(super) const RETRY_AFTER: Duration = Duration::from_millis(250);

/// One of several holders may have this many times what is free. With 2, nine that take all they
/// can leave a twentieth to others, and one of two gets at most two thirds.
const HELD_PER_FREE: u64 = 2;

/// A holder is alone if others have at most this part.
const ALONE_PART: u64 = 256;

/// A holder that is alone leaves this part to others.
const RESERVED_PART: u64 = 16;

#[derive(Debug)]
pub struct Quota {
    used: AtomicU64,
    max: AtomicU64,
    limit: Limit,
}

impl Quota {
    pub fn new(limit: Limit, max: u64) -> Arc<Self> {
        Arc::new(Self { used: AtomicU64::new(0), max: max.into(), limit })
    }

    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    pub fn max(&self) -> u64 {
        self.max.load(Ordering::Relaxed)
    }

    pub const fn limit(&self) -> Limit {
        self.limit
    }

    /// Changes the limit. Permits stay valid, also if they exceed it.
    pub fn set_max(&self, max: u64) {
        self.max.store(max, Ordering::Relaxed);
    }

    /// Takes `amount` until the permit is dropped.
    ///
    /// Errors: `Exhausted`, without a retry time if `amount` exceeds the limit.
    pub fn acquire(self: &Arc<Self>, amount: u64) -> Result<QuotaPermit> {
        let max = self.max();
        let fits = |used: u64| used.checked_add(amount).filter(|sum| *sum <= max);
        match self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits) {
            Ok(_) => Ok(QuotaPermit { quota: self.clone(), amount }),
            Err(_) => self.check_limit(amount).and(Err(self.exhausted(Some(RETRY_AFTER)))),
        }
    }

    /// Takes `amount` until the permit is dropped, even if that exceeds the limit.
    pub fn charge(self: &Arc<Self>, amount: u64) -> QuotaPermit {
        self.used.fetch_add(amount, Ordering::AcqRel);
        QuotaPermit { quota: self.clone(), amount }
    }

    /// Refuses an amount that exceeds the limit, whatever is in use.
    ///
    /// Errors: `Exhausted` without a retry time.
    pub fn check_limit(&self, amount: u64) -> Result<()> {
        if amount <= self.max() { Ok(()) } else { Err(self.exhausted(None)) }
    }

    /// The sixteenth that is kept for others.
    pub fn reserve(&self) -> u64 {
        self.max() / RESERVED_PART
    }

    /// Refuses more to a holder of `own` of this quota if others hold part of it, too, and little
    /// is left: a holder may have twice what is free. So one who holds little finds room, however
    /// many others take all they can (dynamic thresholds: Choudhury and Hahne, 1998). A holder that
    /// is alone leaves a sixteenth to others if there may be any, unless a single request needs it.
    ///
    /// Errors: `Exhausted`.
    pub fn check_share(&self, own: u64, amount: u64, has_others: bool) -> Result<()> {
        let (max, all) = (self.max(), self.used());
        let free = max.saturating_sub(all);
        let of_others = all.saturating_sub(own);
        let is_alone = of_others <= max / ALONE_PART;
        let leaves_room = || own.saturating_add(amount) <= max - self.reserve();
        let is_fair = match is_alone {
            true => !has_others || own == 0 || leaves_room(),
            false => own <= HELD_PER_FREE.saturating_mul(free),
        };
        if is_fair { Ok(()) } else { Err(self.exhausted(Some(RETRY_AFTER))) }
    }

    /// Checks the share of a holder after it has acquired `amount` of a quota whose parts are kept
    /// for long; `own` is all that it holds. If there are others, a sixteenth of the limit must
    /// remain for them. If they hold part of the quota, too, the holder may have twice what is
    /// free, or a sixteenth.
    ///
    /// Errors: `Exhausted`, without a retry time if `amount` alone is more than a share can be.
    pub fn check_lasting_share(&self, own: u64, amount: u64, has_others: bool) -> Result<()> {
        let (max, all) = (self.max(), self.used());
        let free = max.saturating_sub(all);
        let of_others = all.saturating_sub(own);
        let small = self.reserve().max(1);
        let most = max - self.reserve();
        let is_fair = match of_others <= max / ALONE_PART {
            true => own <= most,
            false => own <= small.max(HELD_PER_FREE.saturating_mul(free)),
        };
        if is_fair || !has_others {
            return Ok(());
        }
        Err(self.exhausted((amount <= most).then_some(RETRY_AFTER)))
    }

    fn exhausted(&self, retry_after: Option<Duration>) -> Error {
        Error::Exhausted { limit: self.limit, retry_after }
    }
}

/// A permit for part of a [`Quota`]; returned on drop.
#[derive(Debug)]
pub struct QuotaPermit {
    quota: Arc<Quota>,
    amount: u64,
}

impl QuotaPermit {
    /// Adds what `other` has taken of the same quota; gives `other` back if it is of another one.
    pub fn merge(&mut self, mut other: Self) -> Option<Self> {
        if !Arc::ptr_eq(&self.quota, &other.quota) {
            return Some(other);
        }
        self.amount += std::mem::take(&mut other.amount);
        None
    }
}

impl Drop for QuotaPermit {
    fn drop(&mut self) {
        self.quota.used.fetch_sub(self.amount, Ordering::AcqRel);
    }
}
