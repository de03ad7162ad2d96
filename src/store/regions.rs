//! Regions: memory that the server shares with clients on its host.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::{
    buffer::{Quota, SharedRegion, Wiper},
    error::{Error, Limit, Result},
    wire::decode::RegionId,
};

/// How long a region waits for its client to map it.
const UNMAPPED_TTL: Duration = Duration::from_secs(10);

/// The secret for which a client gets a region's descriptor, once.
pub type RegionToken = [u8; 16];

/// All open regions.
pub struct Regions {
    open: Mutex<HashMap<RegionId, OpenRegion>>,
    bytes: Arc<Quota>,
    wiper: Wiper,
}

struct OpenRegion {
    region: Option<Arc<SharedRegion>>,
    user: u32,
    /// `None` once it is used.
    token: Option<RegionToken>,
    used: Instant,
    /// Dropped with the region: tells the connection that holds it.
    _open: watch::Sender<()>,
    is_open: watch::Receiver<()>,
    wiper: Wiper,
}

/// What a client gets for a token.
pub struct GrantedRegion {
    pub region: Arc<SharedRegion>,
    /// Closes when the region is dropped.
    pub is_open: watch::Receiver<()>,
}

impl Regions {
    /// Regions of `bytes_max` in total; their memory is wiped on the wiper's thread.
    pub fn new(bytes_max: u64, wiper: Wiper) -> Self {
        Self { open: Mutex::default(), bytes: Quota::new(Limit::Regions, bytes_max), wiper }
    }

    pub fn bytes(&self) -> &Arc<Quota> {
        &self.bytes
    }

    /// Adds a region of `user`. Returns its id, and the token for its descriptor.
    ///
    /// Errors: `Internal` if the system has no randomness.
    pub fn add(&self, region: SharedRegion, user: u32) -> Result<(RegionId, RegionToken)> {
        let (id, token) = (RegionId(random()?), random()?);
        let (open, is_open) = watch::channel(());
        let region = OpenRegion {
            region: Some(Arc::new(region)),
            user,
            token: Some(token),
            used: Instant::now(),
            _open: open,
            is_open,
            wiper: self.wiper.clone(),
        };
        self.open.lock().insert(id, region);
        Ok((id, token))
    }

    /// A region for the descriptor's token, which is used up; `None` if anything is wrong.
    pub fn grant(&self, id: RegionId, token: &RegionToken, user: u32) -> Option<GrantedRegion> {
        let mut open = self.open.lock();
        let region = open.get_mut(&id).filter(|region| region.user == user)?;
        region.token.take_if(|known| known == token)?;
        region.used = Instant::now();
        Some(GrantedRegion { region: region.region.clone()?, is_open: region.is_open.clone() })
    }

    /// Errors: `NotFound`, also for a region of another user or one that is not mapped.
    pub fn get(&self, id: RegionId, user: u32) -> Result<Arc<SharedRegion>> {
        let mut open = self.open.lock();
        let is_mapped = |region: &&mut OpenRegion| region.user == user && region.token.is_none();
        let region = open.get_mut(&id).filter(is_mapped).ok_or(Error::NotFound)?;
        region.used = Instant::now();
        region.region.clone().ok_or(Error::NotFound)
    }

    /// Drops a region. Jobs that use it keep its memory.
    pub fn close(&self, id: RegionId) {
        self.open.lock().remove(&id);
    }

    /// Drops regions that no call has used for `ttl`, and those that were never mapped. Returns how
    /// many.
    pub fn drop_idle(&self, ttl: Duration) -> usize {
        let mut open = self.open.lock();
        let before = open.len();
        open.retain(|_, region| {
            // The connection that holds the region has a reference, and each job.
            let holders = region.region.as_ref().map_or(0, Arc::strong_count);
            match region.token {
                Some(_) => region.used.elapsed() < UNMAPPED_TTL,
                None => holders > 2 || region.used.elapsed() < ttl,
            }
        });
        before - open.len()
    }
}

impl Drop for OpenRegion {
    fn drop(&mut self) {
        if let Some(region) = self.region.take() {
            self.wiper.drop_later(region);
        }
    }
}

fn random() -> Result<[u8; 16]> {
    let mut bytes = [0; 16];
    let failed = |_| Error::Internal("the system has no randomness".into());
    getrandom::fill(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::{REGION_ALIGNMENT, SharedMemory};

    const USER: u32 = 7;

    fn add(regions: &Regions) -> (RegionId, RegionToken) {
        let permit = regions.bytes().acquire(REGION_ALIGNMENT).unwrap();
        let memory = Arc::new(SharedMemory::create(REGION_ALIGNMENT as usize).unwrap());
        regions.add(SharedRegion::new(memory, None, permit), USER).unwrap()
    }

    fn regions() -> Regions {
        Regions::new(2 * REGION_ALIGNMENT, Wiper::default())
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
    fn closed_and_idle_regions_are_dropped_and_no_longer_counted() {
        let regions = regions();
        let (first, second) = (add(&regions), add(&regions));
        assert!(regions.bytes().acquire(1).is_err());
        let granted = [first, second].map(|(id, token)| regions.grant(id, &token, USER).unwrap());
        let [first_granted, second_granted] = granted;
        let job = regions.get(second.0, USER).unwrap();
        regions.close(first.0);
        assert!(first_granted.is_open.has_changed().is_err(), "its connection is not told");
        assert_eq!(regions.drop_idle(Duration::ZERO), 0, "a job uses the other one");
        drop(job);
        assert_eq!(regions.drop_idle(Duration::from_secs(60)), 0);
        assert_eq!(regions.drop_idle(Duration::ZERO), 1);
        assert!(regions.get(second.0, USER).is_err());
        drop((first_granted, second_granted));
        // Wiped on another thread.
        let begun = Instant::now();
        while regions.bytes().used() > 0 && begun.elapsed() < Duration::from_secs(10) {
            std::thread::yield_now();
        }
        assert_eq!(regions.bytes().used(), 0);
    }
}
