//! The tenants of a server.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, atomic::Ordering},
};

use parking_lot::RwLock;

use super::limits::{ListedTenant, Tenant, TenantId, TenantLimits, TenantName};
use crate::error::{Error, Result};

/// The most tenants that a server knows.
pub const TENANTS_MAX: usize = 10_000;

/// The tenants of a server: those of a file, or all that credentials name.
#[derive(Debug)]
pub struct Tenants {
    state: RwLock<TenantTable>,
    default: Arc<Tenant>,
}

#[derive(Debug)]
struct TenantTable {
    /// The tenants since the start, so that one that returns finds what it stored. If there are
    /// too many, those that neither use nor store anything are forgotten.
    all: BTreeMap<TenantName, Arc<Tenant>>,
    next_id: u32,
    /// The tenants that may call; `None` if all may.
    listed: Option<TenantList>,
}

#[derive(Debug)]
struct TenantList {
    by_name: BTreeMap<TenantName, Arc<Tenant>>,
    /// The tenants of callers whose credentials name none, by subject.
    by_caller: HashMap<String, Arc<Tenant>>,
}

impl Default for Tenants {
    fn default() -> Self {
        let name = TenantName::default();
        let limits = TenantLimits::default();
        let default = Arc::new(Tenant::new(TenantId::default(), name.clone(), &limits));
        let all = BTreeMap::from([(name, default.clone())]);
        let state = TenantTable { all, next_id: default.id.0 + 1, listed: None };
        Self { state: RwLock::new(state), default }
    }
}

impl TenantTable {
    /// The tenant of this name; a new one gets these limits.
    fn get_or_add(&mut self, name: TenantName, limits: &TenantLimits) -> &Arc<Tenant> {
        let id = TenantId(self.next_id);
        let tenant = self.all.entry(name.clone());
        let tenant = tenant.or_insert_with(|| Arc::new(Tenant::new(id, name, limits)));
        self.next_id += u32::from(tenant.id == id);
        tenant
    }
}

impl Tenants {
    /// Lists the tenants of a file, which replaces those of an earlier one. Tenants that are in
    /// both keep what they use and store; calls of the others are refused from now on. The default
    /// tenant is listed in any case.
    pub fn update(&self, tenants: Vec<ListedTenant>) {
        let mut state = self.state.write();
        if tenants.iter().all(|tenant| tenant.name != self.default.name) {
            self.default.set_limits(&TenantLimits::default());
        }
        let by_name = BTreeMap::from([(self.default.name.clone(), self.default.clone())]);
        let mut list = TenantList { by_name, by_caller: HashMap::new() };
        for ListedTenant { name, callers, limits } in tenants {
            let tenant = state.get_or_add(name.clone(), &limits).clone();
            tenant.set_limits(&limits);
            tenant.was_listed.store(true, Ordering::Relaxed);
            list.by_caller.extend(callers.into_iter().map(|caller| (caller, tenant.clone())));
            list.by_name.insert(name, tenant);
        }
        state.listed = Some(list);
    }

    /// The tenants that use or store anything, and the default one, in the order of their names.
    pub fn in_use(&self) -> Vec<Arc<Tenant>> {
        let state = self.state.read();
        let is_shown =
            |tenant: &&Arc<Tenant>| tenant.uses_anything() || Arc::ptr_eq(tenant, &self.default);
        state.all.values().filter(is_shown).cloned().collect()
    }

    /// The tenants that the file lists, or has since the start, and the default one: names from the
    /// configuration only.
    pub fn listed(&self) -> Vec<Arc<Tenant>> {
        let state = self.state.read();
        let is_shown = |tenant: &&Arc<Tenant>| {
            tenant.was_listed.load(Ordering::Relaxed) || Arc::ptr_eq(tenant, &self.default)
        };
        state.all.values().filter(is_shown).cloned().collect()
    }

    /// The tenants with these ids, in the order of their names.
    pub fn with_ids(&self, ids: &[TenantId]) -> Vec<Arc<Tenant>> {
        let state = self.state.read();
        state.all.values().filter(|tenant| ids.contains(&tenant.id)).cloned().collect()
    }

    /// Whether there are other tenants than the default one, or have been since the start.
    pub fn are_several(&self) -> bool {
        self.state.read().all.len() > 1
    }

    /// The tenant of a caller: the one that its credential names, otherwise the one that lists its
    /// subject, otherwise the default one.
    ///
    /// Errors: `TenantUnknown`.
    pub fn find(&self, named: Option<&str>, subject: &str) -> Result<Arc<Tenant>> {
        let state = self.state.read();
        match (named, &state.listed) {
            (Some(name), listed) => {
                let name = TenantName::new(name).ok_or(Error::TenantUnknown)?;
                let may_call = listed.as_ref().map_or(&state.all, |listed| &listed.by_name);
                match may_call.get(&name) {
                    Some(tenant) => Ok(tenant.clone()),
                    None if listed.is_some() => Err(Error::TenantUnknown),
                    None => {
                        drop(state);
                        self.add(name)
                    }
                }
            }
            (None, Some(listed)) => {
                Ok(listed.by_caller.get(subject).unwrap_or(&self.default).clone())
            }
            (None, None) => Ok(self.default.clone()),
        }
    }

    /// The tenant that has stored something under this name, whether it may call or not.
    pub fn owner(&self, name: &TenantName) -> Arc<Tenant> {
        let mut state = self.state.write();
        state.get_or_add(name.clone(), &TenantLimits::default()).clone()
    }

    /// The tenant of this name, which is new unless another call has just added it.
    fn add(&self, name: TenantName) -> Result<Arc<Tenant>> {
        let mut state = self.state.write();
        if state.all.len() >= TENANTS_MAX && !state.all.contains_key(&name) {
            state.all.retain(|_, tenant| Arc::strong_count(tenant) > 1 || tenant.uses_anything());
            if state.all.len() >= TENANTS_MAX {
                return Err(Error::TenantUnknown);
            }
        }
        Ok(state.get_or_add(name, &TenantLimits::default()).clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(tenants: &[(&str, u64)]) -> Vec<ListedTenant> {
        let listed = |&(name, jobs_max): &(&str, u64)| ListedTenant {
            name: TenantName::new(name).unwrap(),
            callers: vec![format!("uid:{name}")],
            limits: TenantLimits { jobs_max, ..TenantLimits::default() },
        };
        tenants.iter().map(listed).collect()
    }

    fn listed(tenants: &[(&str, u64)]) -> Tenants {
        let table = Tenants::default();
        table.update(file(tenants));
        table
    }

    #[test]
    fn without_a_file_every_tenant_may_call() {
        let tenants = Tenants::default();
        let id = |named| tenants.find(named, "token:x").map(|tenant| tenant.id);
        assert_eq!(id(None), Ok(TenantId(0)));
        assert_eq!((id(Some("a")), id(Some("b"))), (Ok(TenantId(1)), Ok(TenantId(2))));
        assert_eq!((id(Some("a")), id(Some("default"))), (Ok(TenantId(1)), Ok(TenantId(0))));
        assert_eq!(id(Some("A")), Err(Error::TenantUnknown));
        let fill = |from: usize| {
            let names = (from..TENANTS_MAX).map(|number| number.to_string());
            names.map(|name| tenants.find(Some(&name), "").unwrap()).collect::<Vec<_>>()
        };
        let named = ["a", "b"].map(|name| tenants.find(Some(name), "").unwrap());
        let calling = fill(3);
        assert_eq!(id(Some("one-more")), Err(Error::TenantUnknown));
        assert_eq!(id(Some("b")), Ok(TenantId(2)));
        let stored = calling[0].store_bytes.acquire(1).unwrap();
        let program = calling[1].program_bytes.charge(1);
        drop((named, calling));
        assert_eq!(id(Some("one-more")), Ok(TenantId(TENANTS_MAX as u32)));
        assert_eq!(id(Some("3")), Ok(TenantId(3)), "it stores something");
        assert_eq!(id(Some("4")), Ok(TenantId(4)), "it stores a program");
        assert_eq!(id(Some("5")), Ok(TenantId(TENANTS_MAX as u32 + 1)), "it was forgotten");
        drop((stored, program));
    }

    #[test]
    fn a_credential_names_the_tenant_or_the_file_lists_the_caller() {
        let tenants = listed(&[("a", 5), ("b", 6)]);
        let jobs = |named, subject| tenants.find(named, subject).map(|tenant| tenant.jobs.max());
        assert_eq!(jobs(Some("a"), "token:x"), Ok(5));
        assert_eq!(jobs(Some("a"), "uid:b"), Ok(5));
        assert_eq!(jobs(None, "uid:b"), Ok(6));
        assert_eq!(jobs(None, "uid:c"), Ok(u64::MAX));
        assert_eq!(jobs(Some("default"), "token:x"), Ok(u64::MAX));
        assert_eq!(jobs(Some("c"), "uid:a"), Err(Error::TenantUnknown));
        assert_eq!(jobs(Some("A/"), "uid:a"), Err(Error::TenantUnknown));
    }

    #[test]
    fn tenants_that_only_credentials_name_are_not_listed() {
        let tenants = Tenants::default();
        let names = |tenants: &Tenants| {
            tenants.listed().iter().map(|tenant| tenant.name.to_string()).collect::<Vec<_>>()
        };
        tenants.find(Some("stranger"), "").unwrap();
        assert_eq!(names(&tenants), ["default"]);
        tenants.update(file(&[("a", 5), ("b", 5)]));
        tenants.update(file(&[("b", 5)]));
        assert_eq!(names(&tenants), ["a", "b", "default"], "a may still use something");
    }

    #[test]
    fn tenants_are_found_by_id_also_if_they_may_not_call() {
        let tenants = listed(&[("a", 5), ("b", 5)]);
        tenants.update(file(&[("b", 5)]));
        let found = tenants.with_ids(&[TenantId(2), TenantId(1), TenantId(9)]);
        let names: Vec<_> = found.iter().map(|tenant| tenant.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
    }

    #[test]
    fn an_update_changes_limits_and_keeps_identities() {
        let tenants = listed(&[("a", 5), ("b", 5)]);
        let find = |name| tenants.find(Some(name), "");
        let (a, b) = (find("a").unwrap(), find("b").unwrap());
        let permit = a.jobs.acquire(4).unwrap();
        tenants.update(file(&[("a", 3), ("c", 1)]));
        assert!(Arc::ptr_eq(&a, &find("a").unwrap()));
        assert!(a.jobs.acquire(1).is_err() && a.jobs.used() == 4);
        drop(permit);
        assert!(a.jobs.acquire(3).is_ok());
        assert_eq!(find("b").unwrap_err(), Error::TenantUnknown);
        let ids = [tenants.default.id, a.id, b.id, find("c").unwrap().id];
        assert_eq!(ids, [0, 1, 2, 3].map(TenantId));
        tenants.update(file(&[("b", 2)]));
        assert!(Arc::ptr_eq(&b, &find("b").unwrap()));
    }
}
