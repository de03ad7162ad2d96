//! Tenants: who shares a server, and what each of them may use. Independent of how callers prove
//! who they are.

mod device_time;
mod file;
mod limits;
mod table;
mod toml;

pub use self::{
    device_time::{DeviceTimeBudget, DeviceTimeCharge},
    file::read_tenants,
    limits::{Tenant, TenantId, TenantLimits, TenantName},
    table::Tenants,
    toml::from_toml,
};
