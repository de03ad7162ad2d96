//! Tenants: their names, what each may use, and what it uses.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use serde::Deserialize;
use tokio::sync::Semaphore;

use super::device_time::DeviceTimeBudget;
use crate::{
    buffer::{ByteSize, Quota},
    error::{Limit, TenantLimit},
    identity::is_valid_tenant_name,
    telemetry::{self, Gauge},
};

/// The tenant of callers that name none.
const DEFAULT_TENANT: &str = "default";

const WEIGHT_MAX: u32 = 1000;
/// A budget below a millisecond a minute is a mistake.
const DEVICE_SECONDS_MIN: f64 = 0.001;
const DEVICE_SECONDS_MAX: f64 = 1e9;

/// Small requests of a tenant that are being received at the same time.
const SMALL_BYTES_MAX: u64 = 16 << 20;

/// Reads of stored objects of a tenant at the same time: a sixteenth of the runtime's threads for
/// blocking work.
const OBJECT_READS_MAX: usize = 32;

/// Identifies a tenant in one process. Never used again for another tenant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(pub u32);

/// The name of a tenant, which [`is_valid_tenant_name`] allows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantName(Arc<str>);

impl TenantName {
    /// `None` if `text` is not such a name.
    pub fn new(text: &str) -> Option<Self> {
        is_valid_tenant_name(text).then(|| Self(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for TenantName {
    fn default() -> Self {
        Self(DEFAULT_TENANT.into())
    }
}

impl fmt::Display for TenantName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Declares the quotas of a tenant. A row is `quota: form, limit, error`: the limit's name in the
/// file of tenants, the form of its number there, and the error of calls above it. `shown` is its
/// name at `/status`, and `gauge` its metric.
macro_rules! quotas {
    ($(
        $(#[$about:meta])*
        $quota:ident: $form:ty, $max:ident, $limit:ident
            $(, shown $shown:literal)? $(, gauge $gauge:ident)?;
    )+) => {
        /// What a tenant may use at a time. The server's own limits hold in addition. Without a
        /// limit, a number is `u64::MAX`.
        #[derive(Debug, Clone, PartialEq)]
        pub struct TenantLimits {
            /// The share of the workers' time, relative to other tenants.
            pub weight: u32,
            $(pub $max: u64,)+
            /// Modelled time of its jobs; `None` without a limit.
            pub device_seconds_per_minute: Option<f64>,
        }

        impl Default for TenantLimits {
            fn default() -> Self {
                Self { weight: 1, $($max: u64::MAX,)+ device_seconds_per_minute: None }
            }
        }

        /// The table of a tenant in the file of tenants.
        #[derive(Default, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct TenantEntry {
            pub callers: Vec<String>,
            weight: Option<u32>,
            $($max: Option<$form>,)+
            device_seconds_per_minute: Option<f64>,
        }

        impl TenantEntry {
            /// Errors: the first limit that is not valid, and why.
            pub fn limits(self) -> Result<TenantLimits, String> {
                let limits = TenantLimits {
                    weight: self.weight.unwrap_or(1),
                    $($max: match self.$max.map(LimitForm::number) {
                        None => u64::MAX,
                        Some(Ok(number)) => number,
                        Some(Err(why)) => return Err(format!("{}: {why}", stringify!($max))),
                    },)+
                    device_seconds_per_minute: self.device_seconds_per_minute,
                };
                limits.check()?;
                Ok(limits)
            }
        }

        /// A tenant, with what it uses at the moment.
        #[derive(Debug)]
        pub struct Tenant {
            pub id: TenantId,
            pub name: TenantName,
            weight: AtomicU32,
            /// Whether the file of tenants lists it, or has since the start.
            pub was_listed: AtomicBool,
            $($(#[$about])* pub $quota: Arc<Quota>,)+
            /// Bytes of small requests that are being received, which are among `bytes`.
            pub small_bytes: Arc<Quota>,
            /// Memory of open calls and their metadata. Only the server has a limit.
            pub call_bytes: Arc<Quota>,
            /// Bytes of stored programs. Only the server has a limit.
            pub program_bytes: Arc<Quota>,
            /// Stored bases and matrices. Only the server has a limit.
            pub objects: Arc<Quota>,
            /// Regions of shared memory. Only the server and its users have limits.
            pub regions: Arc<Quota>,
            /// Turns to read stored bases and matrices, which may be on a slow disk. Each takes a
            /// thread of those that all tenants share.
            pub object_reads: Arc<Semaphore>,
            /// Time on devices: modelled for jobs, measured for imports of bases and matrices.
            /// Estimates pay for the time that they take.
            pub device_time: Arc<DeviceTimeBudget>,
        }

        impl Tenant {
            pub(crate) fn new(id: TenantId, name: TenantName, limits: &TenantLimits) -> Self {
                Self {
                    id,
                    name,
                    weight: limits.weight.into(),
                    was_listed: false.into(),
                    $($quota: Quota::new(Limit::Tenant(TenantLimit::$limit), limits.$max),)+
                    small_bytes: Quota::new(Limit::SmallRequests, SMALL_BYTES_MAX),
                    call_bytes: Quota::new(Limit::OpenCalls, u64::MAX),
                    program_bytes: Quota::new(Limit::Store, u64::MAX),
                    objects: Quota::new(Limit::Objects, u64::MAX),
                    regions: Quota::new(Limit::Regions, u64::MAX),
                    object_reads: Arc::new(Semaphore::new(OBJECT_READS_MAX)),
                    device_time: Arc::new(DeviceTimeBudget::new(limits.device_seconds_per_minute)),
                }
            }

            /// Changes the limits. What is in use stays, also if it exceeds them.
            pub(super) fn set_limits(&self, limits: &TenantLimits) {
                self.weight.store(limits.weight, Ordering::Relaxed);
                $(self.$quota.set_max(limits.$max);)+
                self.device_time.set_limit(limits.device_seconds_per_minute);
            }

            /// The names and the use of the quotas that `/status` shows.
            pub fn shown(&self) -> Vec<(&'static str, u64)> {
                vec![$($(($shown, self.$quota.used()),)?)+]
            }

            /// The metrics of the quotas that have one, and their use.
            pub(crate) fn gauges(&self) -> Vec<(Gauge<1>, u64)> {
                vec![$($((telemetry::$gauge, self.$quota.used()),)?)+]
            }

            /// Whether the tenant uses or stores anything.
            pub(super) fn uses_anything(&self) -> bool {
                [&self.program_bytes, $(&self.$quota),+].iter().any(|quota| quota.used() > 0)
            }
        }

        #[cfg(test)]
        const LIMITS: &[(&str, TenantLimit)] = &[$((stringify!($max), TenantLimit::$limit)),+];
    };
}

quotas! {
    /// Jobs accepted and not yet ended.
    jobs: u64, jobs_max, Jobs,
        shown "jobs", gauge TENANT_JOBS;
    /// Bytes of payload and working memory, and of responses that clients have not read.
    bytes: SizeText, bytes_in_flight_max, BytesInFlight,
        shown "bytes_in_flight", gauge TENANT_BYTES;
    /// Bytes of responses that clients have not read, which are among `bytes`.
    unread_bytes: SizeText, unread_bytes_max, UnreadBytes, shown "unread_bytes";
    /// Uploads in progress, and vectors that clients have put.
    uploads: u64, uploads_max, Uploads, shown "uploads";
    /// Vectors that calls have kept.
    vectors: u64, vectors_max, Vectors, shown "kept_vectors";
    /// Bytes of stored bases and matrices.
    store_bytes: SizeText, store_bytes_max, StoreBytes,
        shown "stored_bytes", gauge TENANT_STORE_BYTES;
    /// Bytes of shared memory.
    region_bytes: SizeText, region_bytes_max, RegionBytes, shown "region_bytes";
    /// Connections on which the tenant has made a call.
    connections: u64, connections_max, Connections,
        shown "connections", gauge TENANT_CONNECTIONS;
    /// Bytes of devices that pinned bases take, tables included.
    pinned_bases_bytes: SizeText, pinned_bases_bytes_max, PinnedBasesBytes;
}

impl Tenant {
    /// The share of the workers' time, relative to other tenants.
    pub fn weight(&self) -> u32 {
        self.weight.load(Ordering::Relaxed)
    }
}

/// The number of a limit in the file of tenants.
trait LimitForm {
    /// Errors: the text is not a size.
    fn number(self) -> Result<u64, String>;
}

impl LimitForm for u64 {
    fn number(self) -> Result<u64, String> {
        Ok(self)
    }
}

/// A number, or a text such as `"2 GiB"`.
#[derive(Deserialize)]
#[serde(untagged)]
enum SizeText {
    Number(u64),
    Text(String),
}

impl LimitForm for SizeText {
    fn number(self) -> Result<u64, String> {
        match self {
            Self::Number(bytes) => Ok(bytes),
            Self::Text(text) => match text.parse() {
                Ok(ByteSize(bytes)) => Ok(bytes),
                Err(problem) => Err(problem.to_string()),
            },
        }
    }
}

impl TenantLimits {
    fn check(&self) -> Result<(), String> {
        if !(1..=WEIGHT_MAX).contains(&self.weight) {
            return Err(format!("weight: must be 1 to {WEIGHT_MAX}"));
        }
        let range = DEVICE_SECONDS_MIN..=DEVICE_SECONDS_MAX;
        if self.device_seconds_per_minute.is_some_and(|seconds| !range.contains(&seconds)) {
            return Err(format!(
                "device_seconds_per_minute: must be {DEVICE_SECONDS_MIN} to {DEVICE_SECONDS_MAX}"
            ));
        }
        Ok(())
    }
}

/// A tenant of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedTenant {
    pub name: TenantName,
    /// Subjects of callers who belong to it, unless their credentials name a tenant.
    pub callers: Vec<String>,
    pub limits: TenantLimits,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_has_its_name_in_errors_and_in_the_deployment_notes() {
        let notes = include_str!("../../../deploy/README.md");
        for (name, limit) in LIMITS {
            assert_eq!(limit.to_string(), *name);
            assert!(notes.contains(&format!("\n{name} = ")), "deploy/README.md has no {name}");
        }
    }

    #[test]
    fn names_are_plain_and_can_be_parts_of_file_names() {
        for name in ["a", "default", "team-1", "x_y.z", &"n".repeat(64)] {
            assert_eq!(TenantName::new(name).map(|name| name.to_string()), Some(name.to_owned()));
        }
        for text in ["", ".", "..", "-a", "_", "A", "a/b", "a b", "é", "a\u{202e}", &"n".repeat(65)]
        {
            assert_eq!(TenantName::new(text), None, "{text:?}");
        }
    }
}
