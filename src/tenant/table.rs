//! The tenants of a server.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::RwLock;

use super::{
    Tenant, TenantId,
    limits::{TenantLimits, TenantName},
};
use crate::error::{Error, Result};

/// The tenants of a server: those of a file, or one for all callers.
#[derive(Debug)]
pub struct Tenants {
    state: RwLock<TenantTable>,
    /// The tenant of callers that name none.
    default: Arc<Tenant>,
}

#[derive(Debug)]
struct TenantTable {
    /// Every tenant since the start, so that one that returns finds what it stored.
    all: BTreeMap<TenantName, Arc<Tenant>>,
    /// The tenants that may call; `None` if all callers are one tenant.
    listed: Option<BTreeMap<TenantName, Arc<Tenant>>>,
}

impl Default for Tenants {
    fn default() -> Self {
        let name = TenantName::default();
        let limits = TenantLimits::default();
        let default = Arc::new(Tenant::new(TenantId::default(), name.clone(), &limits));
        let all = BTreeMap::from([(name, default.clone())]);
        Self { state: RwLock::new(TenantTable { all, listed: None }), default }
    }
}

impl Tenants {
    /// The tenants of a file. The default tenant exists in any case.
    pub fn listed(tenants: &BTreeMap<TenantName, TenantLimits>) -> Self {
        let table = Self::default();
        table.update(tenants);
        table
    }

    /// Replaces the tenants by those of a newer file. Tenants that are in both keep what they use
    /// and store; calls of the others are refused from now on.
    pub fn update(&self, tenants: &BTreeMap<TenantName, TenantLimits>) {
        let mut state = self.state.write();
        if !tenants.contains_key(&self.default.name) {
            self.default.set_limits(&TenantLimits::default());
        }
        let mut listed = BTreeMap::from([(self.default.name.clone(), self.default.clone())]);
        for (name, limits) in tenants {
            let id = TenantId(state.all.len() as u32);
            let new = || Arc::new(Tenant::new(id, name.clone(), limits));
            let tenant = state.all.entry(name.clone()).or_insert_with(new).clone();
            tenant.set_limits(limits);
            listed.insert(name.clone(), tenant);
        }
        state.listed = Some(listed);
    }

    /// The tenant of a caller that names `name`.
    ///
    /// Errors: `TenantUnknown`.
    pub fn find(&self, name: &TenantName) -> Result<Arc<Tenant>> {
        match &self.state.read().listed {
            None => Ok(self.default.clone()),
            Some(listed) => listed.get(name).cloned().ok_or(Error::TenantUnknown),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> TenantName {
        TenantName::new(text).unwrap()
    }

    fn file(tenants: &[(&str, u64)]) -> BTreeMap<TenantName, TenantLimits> {
        let limits = |jobs_max| TenantLimits { jobs_max, ..TenantLimits::default() };
        tenants.iter().map(|(text, jobs_max)| (name(text), limits(*jobs_max))).collect()
    }

    #[test]
    fn without_a_file_all_callers_are_one_tenant() {
        let tenants = Tenants::default();
        let found = tenants.find(&name("a")).unwrap();
        assert!(Arc::ptr_eq(&found, &tenants.default));
    }

    #[test]
    fn only_listed_tenants_and_the_default_one_may_call() {
        let tenants = Tenants::listed(&file(&[("a", 5)]));
        assert_eq!(tenants.find(&name("b")).unwrap_err(), Error::TenantUnknown);
        assert_eq!(tenants.find(&name("a")).unwrap().jobs.max(), 5);
        assert_eq!(tenants.find(&TenantName::default()).unwrap().jobs.max(), u64::MAX);
    }

    #[test]
    fn an_update_changes_limits_and_keeps_identities() {
        let tenants = Tenants::listed(&file(&[("a", 5), ("b", 5)]));
        let (a, b) = (tenants.find(&name("a")).unwrap(), tenants.find(&name("b")).unwrap());
        let permit = a.jobs.acquire(4).unwrap();
        tenants.update(&file(&[("a", 3), ("c", 1)]));
        assert!(Arc::ptr_eq(&a, &tenants.find(&name("a")).unwrap()));
        assert!(a.jobs.acquire(1).is_err() && a.jobs.used() == 4);
        drop(permit);
        assert!(a.jobs.acquire(3).is_ok());
        assert_eq!(tenants.find(&name("b")).unwrap_err(), Error::TenantUnknown);
        let c = tenants.find(&name("c")).unwrap();
        let ids = [tenants.default.id, a.id, b.id, c.id];
        assert_eq!(ids, [0, 1, 2, 3].map(TenantId));
        tenants.update(&file(&[("b", 2)]));
        assert!(Arc::ptr_eq(&b, &tenants.find(&name("b")).unwrap()));
    }
}
