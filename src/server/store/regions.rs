//! Regions: memory that the server shares with clients on its host.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::{
    buffer::{Quota, QuotaPermit, SharedRegion},
    error::{Error, Limit, Result},
    tenant::Tenant,
    wire::decode::RegionId,
};

/// The maximum number of regions. Each uses two descriptors: its memory and its connection.
const REGIONS_MAX: u64 = 256;

/// The maximum number of one user's regions, so that others can have some.
const USER_REGIONS_MAX: u64 = 192;

/// How long a region waits for its client to map it.
const UNMAPPED_TTL: Duration = Duration::from_secs(10);

/// The secret for which a client gets a region's descriptor, once.
pub type RegionToken = [u8; 16];

/// All open regions.
pub struct Regions {
    open: Mutex<HashMap<RegionId, OpenRegion>>,
    bytes: Arc<Quota>,
    slots: Arc<Quota>,
    /// The slots of each user who has opened a region.
    user_slots: Mutex<HashMap<u32, Arc<Quota>>>,
}

struct OpenRegion {
    region: Arc<SharedRegion>,
    user: u32,
    /// `None` once it is used.
    token: Option<RegionToken>,
    opened: Instant,
}

impl Regions {
    /// Allows regions of `bytes_max` bytes in total.
    pub fn new(bytes_max: u64) -> Self {
        let slots_max = if bytes_max > 0 { REGIONS_MAX } else { 0 };
        let [bytes, slots] = [bytes_max, slots_max].map(|max| Quota::new(Limit::Regions, max));
        Self { open: Mutex::default(), bytes, slots, user_slots: Mutex::default() }
    }

    /// Bytes of regions, among them those that are still being wiped.
    pub fn bytes(&self) -> u64 {
        self.bytes.used()
    }

    /// Permits for one more region of a tenant and a user. `has_others`: the server has other
    /// tenants, to which this one leaves memory and regions.
    ///
    /// Errors: `Exhausted`.
    pub fn admit(
        &self,
        tenant: &Tenant,
        user: u32,
        bytes: u64,
        has_others: bool,
    ) -> Result<Vec<QuotaPermit>> {
        let of_user = self.slots_of(user);
        let permits = vec![
            self.bytes.acquire(bytes)?,
            self.slots.acquire(1)?,
            of_user.acquire(1)?,
            tenant.region_bytes.acquire(bytes)?,
            tenant.regions.acquire(1)?,
        ];
        self.bytes.check_lasting_share(tenant.region_bytes.used(), bytes, has_others)?;
        self.slots.check_lasting_share(tenant.regions.used(), 1, has_others)?;
        Ok(permits)
    }

    fn slots_of(&self, user: u32) -> Arc<Quota> {
        let new = || Quota::new(Limit::Regions, USER_REGIONS_MAX);
        self.user_slots.lock().entry(user).or_insert_with(new).clone()
    }

    /// Adds a region of `user`. Returns its id, and the token for its descriptor.
    ///
    /// Errors: `Internal` if the system has no randomness.
    pub fn add(&self, region: SharedRegion, user: u32) -> Result<(RegionId, RegionToken)> {
        let id = RegionId(random()?);
        let token = random()?;
        let region = Arc::new(region);
        let opened = Instant::now();
        let region = OpenRegion { region, user, token: Some(token), opened };
        self.open.lock().insert(id, region);
        Ok((id, token))
    }

    /// A region for its token, which is used up; `None` if anything is wrong.
    pub fn grant(&self, id: RegionId, token: &RegionToken, user: u32) -> Option<Arc<SharedRegion>> {
        let mut open = self.open.lock();
        let region = open.get_mut(&id).filter(|region| region.user == user)?;
        region.token.take_if(|known| known == token)?;
        Some(region.region.clone())
    }

    /// Errors: `NotFound`, also for a region of another user or one that is not mapped.
    pub fn get(&self, id: RegionId, user: u32) -> Result<Arc<SharedRegion>> {
        let open = self.open.lock();
        let is_mapped = |region: &&OpenRegion| region.user == user && region.token.is_none();
        let region = open.get(&id).filter(is_mapped).ok_or(Error::NOT_FOUND)?;
        Ok(region.region.clone())
    }

    /// Drops a region that its client has released. Jobs that use it keep its memory.
    pub fn close(&self, id: RegionId) {
        if let Some(region) = self.open.lock().remove(&id) {
            region.region.memory().release();
        }
    }

    /// Drops regions that were never mapped.
    pub fn drop_unmapped(&self) {
        let is_awaited = |region: &OpenRegion| region.opened.elapsed() < UNMAPPED_TTL;
        self.open.lock().retain(|_, region| region.token.is_none() || is_awaited(region));
    }
}

fn random() -> Result<[u8; 16]> {
    let mut bytes = [0; 16];
    let failed = |_| Error::internal("the system has no randomness");
    getrandom::fill(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        buffer::Wiper,
        error::TenantLimit,
        region::{REGION_ALIGNMENT, SharedMemory},
        tenant::{TenantId, TenantLimits, TenantName},
    };

    const USER: u32 = 7;

    fn tenant(region_bytes_max: u64) -> Tenant {
        let limits = TenantLimits { region_bytes_max, ..TenantLimits::default() };
        Tenant::new(TenantId::default(), TenantName::default(), &limits)
    }

    fn add(regions: &Regions) -> (RegionId, RegionToken) {
        let permits = regions.admit(&tenant(u64::MAX), USER, REGION_ALIGNMENT, false).unwrap();
        let memory = Arc::new(SharedMemory::create(REGION_ALIGNMENT as usize).unwrap());
        regions.add(SharedRegion::new(memory, None, permits, Wiper::default()), USER).unwrap()
    }

    fn regions() -> Regions {
        Regions::new(2 * REGION_ALIGNMENT)
    }

    #[test]
    fn a_token_is_valid_once_for_its_region_and_user() {
        let regions = regions();
        let (first, second) = (add(&regions), add(&regions));
        assert!(regions.get(first.0, USER).is_err(), "before it is mapped");
        let wrong_token = regions.grant(first.0, &second.1, USER);
        let wrong_user = regions.grant(first.0, &first.1, USER + 1);
        assert!(wrong_token.is_none() && wrong_user.is_none());
        assert!(regions.grant(RegionId([0; 16]), &first.1, USER).is_none());
        assert!(regions.grant(first.0, &first.1, USER).is_some());
        assert!(regions.grant(first.0, &first.1, USER).is_none(), "a token was used twice");
        assert!(regions.get(first.0, USER).is_ok());
        assert!(regions.get(first.0, USER + 1).is_err());
    }

    #[test]
    fn a_closed_region_counts_until_its_last_job_has_ended() {
        let regions = regions();
        let ((first, token), _second) = (add(&regions), add(&regions));
        assert!(regions.admit(&tenant(u64::MAX), USER, 1, false).is_err());
        let job = regions.grant(first, &token, USER).unwrap();
        regions.close(first);
        assert!(regions.get(first, USER).is_err());
        assert_eq!(regions.bytes(), 2 * REGION_ALIGNMENT);
        drop(job);
        // Wiped on another thread.
        let begun = Instant::now();
        while regions.bytes() > REGION_ALIGNMENT && begun.elapsed() < Duration::from_secs(10) {
            std::thread::yield_now();
        }
        assert_eq!(regions.bytes(), REGION_ALIGNMENT);
    }

    #[test]
    fn a_tenant_has_its_own_limit() {
        let regions = regions();
        let tenant = tenant(10);
        let _permits = regions.admit(&tenant, USER, 6, false).unwrap();
        let expected = Limit::Tenant(TenantLimit::RegionBytes);
        let refused = regions.admit(&tenant, USER, 5, false).unwrap_err();
        assert_eq!(refused.limit(), Some(expected));
        assert!(regions.admit(&tenant, USER, 4, false).is_ok());
    }

    #[test]
    fn a_tenant_leaves_memory_to_others_if_there_are_any() {
        let regions = Regions::new(1600);
        let (one, two) = (tenant(u64::MAX), tenant(u64::MAX));
        let admit = |tenant, bytes| regions.admit(tenant, USER, bytes, true);
        let _held = admit(&one, 1500).unwrap();
        assert!(admit(&one, 1).is_err(), "a sixteenth is left");
        let _other = admit(&two, 50).unwrap();
        assert!(admit(&one, 1).is_err(), "has more than twice what is free");
        let _more = admit(&two, 50).expect("has a sixteenth");
        assert!(admit(&two, 1).is_err(), "nothing is left");
    }

    #[test]
    fn a_user_leaves_regions_to_others() {
        let regions = Regions::new(REGIONS_MAX);
        let tenant = tenant(u64::MAX);
        let admit = |user| regions.admit(&tenant, user, 1, false);
        // Before they are open, too.
        let own: Vec<_> = (0..USER_REGIONS_MAX).map(|_| admit(USER).unwrap()).collect();
        let refused = admit(USER).unwrap_err();
        assert_eq!(refused.limit(), Some(Limit::Regions), "{refused}");
        assert!(admit(USER + 1).is_ok());
        drop(own);
        assert!(admit(USER).is_ok());
    }

    #[test]
    fn a_tenant_leaves_regions_to_others_if_there_are_any() {
        let regions = Regions::new(REGIONS_MAX);
        let (one, two) = (tenant(u64::MAX), tenant(u64::MAX));
        let take = |tenant| {
            let users = USER..USER + 2;
            let each = users.flat_map(|user| (0..USER_REGIONS_MAX).map(move |_| user));
            each.filter_map(|user| regions.admit(tenant, user, 1, true).ok()).collect::<Vec<_>>()
        };
        let of_one = take(&one);
        assert_eq!(of_one.len() as u64, REGIONS_MAX - REGIONS_MAX / 16);
        assert_eq!(take(&two).len() as u64, REGIONS_MAX / 16);
    }

    #[test]
    fn only_unmapped_regions_expire() {
        let regions = regions();
        let ((mapped, token), (unmapped, _)) = (add(&regions), add(&regions));
        regions.grant(mapped, &token, USER).unwrap();
        let long_ago = Instant::now().checked_sub(2 * UNMAPPED_TTL).unwrap();
        regions.open.lock().values_mut().for_each(|region| region.opened = long_ago);
        regions.drop_unmapped();
        assert!(regions.get(mapped, USER).is_ok());
        assert!(!regions.open.lock().contains_key(&unmapped));
    }
}
