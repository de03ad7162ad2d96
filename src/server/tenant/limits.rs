//! Names of tenants, and what each may use.

use std::{fmt, sync::Arc};

use crate::identity::is_valid_tenant_name;

/// The tenant of callers that name none.
const DEFAULT_TENANT: &str = "default";

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

/// What a tenant may use at a time. The server's own limits hold in addition. Without a limit, a
/// number is `u64::MAX`.
#[derive(Debug, Clone, PartialEq)]
pub struct TenantLimits {
    /// The share of the workers' time, relative to other tenants.
    pub weight: u32,
    pub bytes_in_flight_max: u64,
    pub unread_bytes_max: u64,
    pub jobs_max: u64,
    pub uploads_max: u64,
    pub vectors_max: u64,
    pub store_bytes_max: u64,
    pub pinned_bases_bytes_max: u64,
    pub region_bytes_max: u64,
    pub connections_max: u64,
    /// Modelled time of its jobs; `None` without a limit.
    pub device_seconds_per_minute: Option<f64>,
}

impl Default for TenantLimits {
    fn default() -> Self {
        Self {
            weight: 1,
            bytes_in_flight_max: u64::MAX,
            unread_bytes_max: u64::MAX,
            jobs_max: u64::MAX,
            uploads_max: u64::MAX,
            vectors_max: u64::MAX,
            store_bytes_max: u64::MAX,
            pinned_bases_bytes_max: u64::MAX,
            region_bytes_max: u64::MAX,
            connections_max: u64::MAX,
            device_seconds_per_minute: None,
        }
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
