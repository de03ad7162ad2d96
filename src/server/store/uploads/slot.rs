//! The slots that uploads take, and whose they are.

use std::sync::Arc;

use crate::{
    buffer::{Quota, QuotaPermit},
    error::Result,
    telemetry,
    tenant::{Tenant, TenantId},
};

/// Who opens uploads, and whose slots they take.
#[derive(Clone, Copy)]
pub struct UploadOwner<'a> {
    pub tenant: &'a Tenant,
    /// Whether the server has other tenants, to which the owner leaves slots.
    pub has_others: bool,
    /// The slots of the connection; `None` for callers behind a proxy, who share one.
    pub connection: Option<&'a Arc<Quota>>,
}

impl<'a> UploadOwner<'a> {
    /// An owner that only its tenant and the server limit.
    pub fn of_tenant(tenant: &'a Tenant) -> Self {
        Self { tenant, has_others: false, connection: None }
    }
}

/// A slot of the tenant, one of the connection, and one of the server.
#[derive(Debug)]
pub(super) struct UploadSlot {
    pub tenant: TenantId,
    _tenant: QuotaPermit,
    _connection: Option<QuotaPermit>,
    _server: QuotaPermit,
}

impl UploadSlot {
    /// A slot of the tenant's quota `of_tenant`, of the owner's connection and of the server.
    ///
    /// Errors: `Exhausted`.
    pub fn take(
        owner: UploadOwner<'_>,
        of_tenant: &Arc<Quota>,
        of_server: &Arc<Quota>,
    ) -> Result<Self> {
        let slot = || {
            let slot = Self {
                tenant: owner.tenant.id,
                _tenant: of_tenant.acquire(1)?,
                _connection: owner.connection.map(|slots| slots.acquire(1)).transpose()?,
                _server: of_server.acquire(1)?,
            };
            let own = owner.tenant.uploads.used() + owner.tenant.vectors.used();
            of_server.check_lasting_share(own, 1, owner.has_others)?;
            Ok(slot)
        };
        slot().inspect_err(telemetry::count_refusal)
    }
}
