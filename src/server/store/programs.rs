//! Programs that clients name by their content: a cache in memory.

use std::{collections::HashMap, mem::size_of, sync::Arc};

use parking_lot::Mutex;

use crate::{
    buffer::QuotaPermit,
    error::{Error, Result},
    ops::{Operation, OperationProgram},
    program::ValueType,
    tenant::{Tenant, TenantId},
    wire::decode::ProgramId,
};

const PROGRAMS_MAX: usize = 1024;

const BYTES_MAX: usize = 64 << 20;

/// An LRU cache of programs for each tenant. If all of them together are full, the tenant whose
/// programs take the most memory loses those that it has not used for the longest time. Programs
/// count for their tenant, but are not refused.
#[derive(Default)]
pub struct ProgramStore(Mutex<ProgramCaches>);

#[derive(Default)]
struct ProgramCaches {
    by_tenant: HashMap<TenantId, ProgramCache>,
    bytes: usize,
    programs: usize,
    /// Number of uses so far.
    uses: u64,
}

#[derive(Default)]
struct ProgramCache {
    by_id: HashMap<ProgramId, CachedProgram>,
    bytes: usize,
}

struct CachedProgram {
    program: Arc<OperationProgram>,
    bytes: usize,
    last_use: u64,
    _charge: QuotaPermit,
}

impl ProgramStore {
    /// Errors: `NotFound` if the tenant never stored the program, or if it was dropped.
    pub fn get(&self, tenant: TenantId, id: ProgramId) -> Result<Arc<OperationProgram>> {
        let mut caches = self.0.lock();
        caches.uses += 1;
        let now = caches.uses;
        let cache = caches.by_tenant.get_mut(&tenant).ok_or(Error::NOT_FOUND)?;
        let cached = cache.by_id.get_mut(&id).ok_or(Error::NOT_FOUND)?;
        cached.last_use = now;
        Ok(cached.program.clone())
    }

    /// Stores a program whose message has `encoded_bytes`.
    pub fn insert(
        &self,
        tenant: &Tenant,
        id: ProgramId,
        program: OperationProgram,
        encoded_bytes: usize,
    ) {
        let bytes = encoded_bytes + program.steps().len() * size_of::<(Operation, ValueType)>();
        let program = Arc::new(program);
        let _charge = tenant.program_bytes.charge(bytes as u64);
        let tenant = tenant.id;
        let mut caches = self.0.lock();
        caches.uses += 1;
        let cached = CachedProgram { program, bytes, last_use: caches.uses, _charge };
        caches.insert(tenant, id, cached);
        while caches.programs > 1 && (caches.programs > PROGRAMS_MAX || caches.bytes > BYTES_MAX) {
            caches.drop_one((tenant, id));
        }
    }
}

impl ProgramCaches {
    fn insert(&mut self, tenant: TenantId, id: ProgramId, cached: CachedProgram) {
        let cache = self.by_tenant.entry(tenant).or_default();
        self.bytes += cached.bytes;
        self.programs += 1;
        cache.bytes += cached.bytes;
        if let Some(old) = cache.by_id.insert(id, cached) {
            self.bytes -= old.bytes;
            self.programs -= 1;
            cache.bytes -= old.bytes;
        }
    }

    /// Drops a program other than `kept` of the tenant that has the most of what exceeds its limit.
    fn drop_one(&mut self, kept: (TenantId, ProgramId)) {
        let is_number = self.programs > PROGRAMS_MAX;
        let others = self.by_tenant.iter();
        let others = others.filter(|(tenant, cache)| **tenant != kept.0 || cache.by_id.len() > 1);
        let size = |cache: &ProgramCache| if is_number { cache.by_id.len() } else { cache.bytes };
        let largest = others.max_by_key(|(_, cache)| size(cache));
        let Some(tenant) = largest.map(|(tenant, _)| *tenant) else { return };
        let Some(cache) = self.by_tenant.get_mut(&tenant) else { return };
        let others = cache.by_id.iter().filter(|(id, _)| (tenant, **id) != kept);
        let oldest = others.min_by_key(|(_, cached)| cached.last_use);
        let oldest = oldest.map(|(id, _)| *id);
        if let Some(dropped) = oldest.and_then(|id| cache.by_id.remove(&id)) {
            cache.bytes -= dropped.bytes;
            self.bytes -= dropped.bytes;
            self.programs -= 1;
        }
        if cache.by_id.is_empty() {
            self.by_tenant.remove(&tenant);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        field::FieldId,
        ops::InputStep,
        tenant::{TenantLimits, TenantName},
    };

    const ONE: TenantId = TenantId(1);
    const TWO: TenantId = TenantId(2);

    fn tenant(id: TenantId) -> Tenant {
        Tenant::new(id, TenantName::default(), &TenantLimits::default())
    }

    fn program() -> OperationProgram {
        let step = InputStep { field: FieldId::Bls12381Fr, rows: 1, length: 1 };
        OperationProgram::new(vec![step.into()]).unwrap()
    }

    fn id(number: usize) -> ProgramId {
        let mut id = [0; 32];
        id[..8].copy_from_slice(&number.to_le_bytes());
        ProgramId(id)
    }

    #[test]
    fn drops_the_programs_that_were_not_used_for_the_longest_time() {
        let store = ProgramStore::default();
        let one = tenant(ONE);
        for number in 0..PROGRAMS_MAX {
            store.insert(&one, id(number), program(), 0);
        }
        store.get(ONE, id(0)).unwrap();
        store.insert(&one, id(PROGRAMS_MAX), program(), 0);
        assert!(store.get(ONE, id(0)).is_ok() && store.get(ONE, id(PROGRAMS_MAX)).is_ok());
        assert_eq!(store.get(ONE, id(1)), Err(Error::NOT_FOUND));
        // The same program again takes no more room.
        store.insert(&one, id(0), program(), 0);
        assert!(store.get(ONE, id(2)).is_ok());
    }

    #[test]
    fn bounds_bytes_but_keeps_the_program_that_was_stored_last() {
        let store = ProgramStore::default();
        let one = tenant(ONE);
        store.insert(&one, id(0), program(), BYTES_MAX / 2);
        store.insert(&one, id(1), program(), BYTES_MAX / 2);
        assert_eq!(store.get(ONE, id(0)), Err(Error::NOT_FOUND));
        store.insert(&one, id(2), program(), BYTES_MAX);
        assert_eq!(store.get(ONE, id(1)), Err(Error::NOT_FOUND));
        assert!(store.get(ONE, id(2)).is_ok());
        assert_eq!(store.0.lock().programs, 1);
    }

    #[test]
    fn programs_count_for_their_tenant_until_they_are_dropped() {
        let store = ProgramStore::default();
        let one = tenant(ONE);
        let two = tenant(TWO);
        let used = || [&one, &two].map(|tenant| tenant.program_bytes.used());
        store.insert(&one, id(0), program(), 1000);
        store.insert(&two, id(0), program(), 2000);
        let [of_one, of_two] = used();
        assert!(of_one >= 1000 && of_two >= 2000);
        store.insert(&one, id(0), program(), 1000);
        assert_eq!(used(), [of_one, of_two], "the same program again");
        store.insert(&one, id(1), program(), BYTES_MAX);
        assert_eq!(used()[1], 0, "dropped for the last program");
    }

    #[test]
    fn a_tenant_sees_and_drops_its_own_programs_only() {
        let store = ProgramStore::default();
        let one = tenant(ONE);
        let two = tenant(TWO);
        store.insert(&one, id(0), program(), BYTES_MAX / 4);
        assert_eq!(store.get(TWO, id(0)), Err(Error::NOT_FOUND));
        for number in 1..5 {
            store.insert(&two, id(number), program(), BYTES_MAX / 4);
        }
        assert!(store.get(ONE, id(0)).is_ok(), "the other tenant has more");
        assert_eq!(store.get(TWO, id(1)), Err(Error::NOT_FOUND));
        assert!(store.get(TWO, id(4)).is_ok());
    }

    #[test]
    fn many_small_programs_of_a_tenant_cost_no_other_one_its_program() {
        let store = ProgramStore::default();
        let one = tenant(ONE);
        let two = tenant(TWO);
        store.insert(&two, id(0), program(), BYTES_MAX / 4);
        for number in 0..PROGRAMS_MAX + 3 {
            store.insert(&one, id(number), program(), 0);
        }
        assert!(store.get(TWO, id(0)).is_ok());
        store.insert(&tenant(TenantId(3)), id(0), program(), BYTES_MAX);
        assert!(store.get(TenantId(3), id(0)).is_ok(), "it was stored last");
    }
}
