//! Tenants: who shares a server, and what each of them may use. Independent of how callers prove
//! who they are.

mod device_time;
mod file;
mod limits;
mod table;
mod toml;

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, Ordering},
};

use tokio::sync::Semaphore;

pub use self::{
    device_time::{DeviceTimeBudget, DeviceTimeCharge},
    file::read_tenants,
    limits::{TenantLimits, TenantName},
    table::Tenants,
    toml::from_toml,
};
use crate::{
    buffer::Quota,
    error::{Limit, TenantLimit},
};

/// Small requests of a tenant that are being received at the same time.
const SMALL_BYTES_MAX: u64 = 16 << 20;

/// Reads of stored objects of a tenant at the same time: a sixteenth of the runtime's threads for
/// blocking work.
const OBJECT_READS_MAX: usize = 32;

/// Identifies a tenant in one process. Never used again for another tenant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(pub u32);

/// A tenant, with what it uses at the moment.
#[derive(Debug)]
pub struct Tenant {
    pub id: TenantId,
    pub name: TenantName,
    weight: AtomicU32,
    /// Whether the file of tenants lists it, or has since the start.
    was_listed: AtomicBool,
    /// Bytes of payload and working memory, and of responses that clients have not read.
    pub bytes: Arc<Quota>,
    /// Bytes of small requests that are being received, which are among `bytes`.
    pub small_bytes: Arc<Quota>,
    /// Memory of open calls and their metadata. Only the server has a limit.
    pub call_bytes: Arc<Quota>,
    /// Bytes of responses that clients have not read, which are among `bytes`.
    pub unread_bytes: Arc<Quota>,
    /// Jobs accepted and not yet ended.
    pub jobs: Arc<Quota>,
    /// Uploads in progress, and vectors that clients have put.
    pub uploads: Arc<Quota>,
    /// Vectors that calls have kept.
    pub vectors: Arc<Quota>,
    /// Bytes of stored bases and matrices.
    pub store_bytes: Arc<Quota>,
    /// Bytes of stored programs. Only the server has a limit.
    pub program_bytes: Arc<Quota>,
    /// Bytes of devices that pinned bases take, tables included.
    pub pinned_bases_bytes: Arc<Quota>,
    /// Stored bases and matrices. Only the server has a limit.
    pub objects: Arc<Quota>,
    /// Bytes of shared memory.
    pub region_bytes: Arc<Quota>,
    /// Regions of shared memory. Only the server and its users have limits.
    pub regions: Arc<Quota>,
    /// Connections on which the tenant has made a call.
    pub connections: Arc<Quota>,
    /// Turns to read stored bases and matrices, which may be on a slow disk. Each takes a thread of
    /// those that all tenants share.
    pub object_reads: Arc<Semaphore>,
    /// Time on devices: modelled for jobs, measured for imports of bases and matrices. Estimates
    /// pay for the time that they take.
    pub device_time: Arc<DeviceTimeBudget>,
}

impl Tenant {
    pub(crate) fn new(id: TenantId, name: TenantName, limits: &TenantLimits) -> Self {
        let quota = |limit, max| Quota::new(Limit::Tenant(limit), max);
        Self {
            id,
            name,
            weight: limits.weight.into(),
            was_listed: false.into(),
            bytes: quota(TenantLimit::BytesInFlight, limits.bytes_in_flight_max),
            small_bytes: Quota::new(Limit::SmallRequests, SMALL_BYTES_MAX),
            call_bytes: Quota::new(Limit::OpenCalls, u64::MAX),
            unread_bytes: quota(TenantLimit::UnreadBytes, limits.unread_bytes_max),
            jobs: quota(TenantLimit::Jobs, limits.jobs_max),
            uploads: quota(TenantLimit::Uploads, limits.uploads_max),
            vectors: quota(TenantLimit::Vectors, limits.vectors_max),
            store_bytes: quota(TenantLimit::StoreBytes, limits.store_bytes_max),
            program_bytes: Quota::new(Limit::Store, u64::MAX),
            pinned_bases_bytes: quota(TenantLimit::PinnedBasesBytes, limits.pinned_bases_bytes_max),
            objects: Quota::new(Limit::Objects, u64::MAX),
            region_bytes: quota(TenantLimit::RegionBytes, limits.region_bytes_max),
            regions: Quota::new(Limit::Regions, u64::MAX),
            object_reads: Arc::new(Semaphore::new(OBJECT_READS_MAX)),
            connections: quota(TenantLimit::Connections, limits.connections_max),
            device_time: Arc::new(DeviceTimeBudget::new(limits.device_seconds_per_minute)),
        }
    }

    /// The share of the workers' time, relative to other tenants.
    pub fn weight(&self) -> u32 {
        self.weight.load(Ordering::Relaxed)
    }

    /// Whether the tenant uses or stores anything.
    fn uses_anything(&self) -> bool {
        let all = [
            &self.bytes,
            &self.jobs,
            &self.uploads,
            &self.vectors,
            &self.store_bytes,
            &self.program_bytes,
            &self.region_bytes,
            &self.connections,
        ];
        all.iter().any(|quota| quota.used() > 0)
    }

    /// Changes the limits. What is in use stays, also if it exceeds them.
    fn set_limits(&self, limits: &TenantLimits) {
        self.weight.store(limits.weight, Ordering::Relaxed);
        self.bytes.set_max(limits.bytes_in_flight_max);
        self.unread_bytes.set_max(limits.unread_bytes_max);
        self.jobs.set_max(limits.jobs_max);
        self.uploads.set_max(limits.uploads_max);
        self.vectors.set_max(limits.vectors_max);
        self.store_bytes.set_max(limits.store_bytes_max);
        self.pinned_bases_bytes.set_max(limits.pinned_bases_bytes_max);
        self.region_bytes.set_max(limits.region_bytes_max);
        self.connections.set_max(limits.connections_max);
        self.device_time.set_limit(limits.device_seconds_per_minute);
    }
}
