//! Budgets for bytes, jobs and uploads.

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

/// What small requests may take beyond a limit, so that a full server still answers.
const SLACK: u64 = 16 << 20;

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

    /// Changes the limit. Permits stay valid, also if they exceed it.
    pub fn set_max(&self, max: u64) {
        self.max.store(max, Ordering::Relaxed);
    }

    /// Takes `amount` until the permit is dropped.
    ///
    /// Errors: `Exhausted`, without a retry time if `amount` exceeds the limit.
    pub fn acquire(self: &Arc<Self>, amount: u64) -> Result<QuotaPermit> {
        self.check_limit(amount)?;
        self.acquire_up_to(self.max(), amount)
    }

    /// Like [`Self::acquire`], but up to 16 MiB beyond the limit.
    ///
    /// Errors: `Exhausted`.
    pub fn acquire_small(self: &Arc<Self>, amount: u64) -> Result<QuotaPermit> {
        self.acquire_up_to(self.max().saturating_add(SLACK), amount)
    }

    fn acquire_up_to(self: &Arc<Self>, max: u64, amount: u64) -> Result<QuotaPermit> {
        let fits = |used: u64| used.checked_add(amount).filter(|sum| *sum <= max);
        match self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits) {
            Ok(_) => Ok(QuotaPermit { quota: self.clone(), amount }),
            Err(_) => Err(self.exhausted(Some(RETRY_AFTER))),
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

    /// Refuses more to a holder of `own` of this quota if others hold part of it, too, and little
    /// is left: a holder may have twice what is free. So one who holds little finds room, however
    /// many others take all they can (dynamic thresholds: Choudhury and Hahne, 1998). A holder that
    /// is alone leaves a sixteenth to others if there may be any, unless a single request needs it.
    ///
    /// Errors: `Exhausted`.
    pub fn check_share(&self, own: u64, amount: u64, has_others: bool) -> Result<()> {
        let (max, all) = (self.max(), self.used());
        let (free, of_others) = (max.saturating_sub(all), all.saturating_sub(own));
        let is_alone = of_others <= max / ALONE_PART;
        let leaves_room = || own.saturating_add(amount) <= max - max / RESERVED_PART;
        let is_fair = match is_alone {
            true => !has_others || own == 0 || leaves_room(),
            false => own <= HELD_PER_FREE.saturating_mul(free),
        };
        if is_fair { Ok(()) } else { Err(self.exhausted(Some(RETRY_AFTER))) }
    }

    /// Refuses what a holder has just taken of this quota for long: if others hold part of it, too,
    /// and the holder now has more than a sixteenth and more than twice what is free; or if it
    /// leaves less than a sixteenth to others that there may be. `own` is all that it holds.
    ///
    /// Errors: `Exhausted`.
    pub fn check_lasting_share(&self, own: u64, has_others: bool) -> Result<()> {
        let (max, all) = (self.max(), self.used());
        let (free, of_others) = (max.saturating_sub(all), all.saturating_sub(own));
        let is_fair = match of_others <= max / ALONE_PART {
            true => own <= max - max / RESERVED_PART,
            false => !self.is_large_holder(own) || own <= HELD_PER_FREE.saturating_mul(free),
        };
        if is_fair || !has_others { Ok(()) } else { Err(self.exhausted(Some(RETRY_AFTER))) }
    }

    /// Whether a holder of `own` has more than a sixteenth.
    pub fn is_large_holder(&self, own: u64) -> bool {
        own > (self.max() / RESERVED_PART).max(1)
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
