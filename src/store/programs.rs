//! Programs that clients name by their content: a cache in memory.

use std::{collections::HashMap, mem::size_of, sync::Arc};

use parking_lot::Mutex;

use crate::{
    error::{Error, Result},
    ops::{Operation, OperationProgram},
    program::ValueType,
    wire::decode::ProgramId,
};

const PROGRAMS_MAX: usize = 1024;

const BYTES_MAX: usize = 64 << 20;

/// Stored programs. Those that have not been used for the longest time make room for new ones.
#[derive(Default)]
pub struct ProgramStore(Mutex<ProgramCache>);

#[derive(Default)]
struct ProgramCache {
    by_id: HashMap<ProgramId, CachedProgram>,
    bytes: usize,
    /// Number of uses so far.
    uses: u64,
}

struct CachedProgram {
    program: Arc<OperationProgram>,
    bytes: usize,
    last_use: u64,
}

impl ProgramStore {
    /// Errors: `NotFound` if the program was never stored, or was dropped.
    pub fn get(&self, id: ProgramId) -> Result<Arc<OperationProgram>> {
        let mut cache = self.0.lock();
        cache.uses += 1;
        let now = cache.uses;
        let cached = cache.by_id.get_mut(&id).ok_or(Error::NotFound)?;
        cached.last_use = now;
        Ok(cached.program.clone())
    }

    /// Stores a program whose message has `encoded_bytes`.
    pub fn insert(&self, id: ProgramId, program: OperationProgram, encoded_bytes: usize) {
        let bytes = encoded_bytes + program.steps().len() * size_of::<(Operation, ValueType)>();
        let mut cache = self.0.lock();
        cache.uses += 1;
        let (program, last_use) = (Arc::new(program), cache.uses);
        cache.bytes += bytes;
        if let Some(old) = cache.by_id.insert(id, CachedProgram { program, bytes, last_use }) {
            cache.bytes -= old.bytes;
        }
        while cache.by_id.len() > 1 && (cache.by_id.len() > PROGRAMS_MAX || cache.bytes > BYTES_MAX)
        {
            cache.drop_oldest();
        }
    }
}

impl ProgramCache {
    fn drop_oldest(&mut self) {
        let oldest = self.by_id.iter().min_by_key(|(_, cached)| cached.last_use);
        let oldest = oldest.map(|(id, _)| *id);
        if let Some(dropped) = oldest.and_then(|id| self.by_id.remove(&id)) {
            self.bytes -= dropped.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{field::FieldId, ops::InputStep};

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
        for number in 0..PROGRAMS_MAX {
            store.insert(id(number), program(), 0);
        }
        store.get(id(0)).unwrap();
        store.insert(id(PROGRAMS_MAX), program(), 0);
        assert!(store.get(id(0)).is_ok() && store.get(id(PROGRAMS_MAX)).is_ok());
        assert_eq!(store.get(id(1)), Err(Error::NotFound));
        // The same program again takes no more room.
        store.insert(id(0), program(), 0);
        assert!(store.get(id(2)).is_ok());
    }

    #[test]
    fn bounds_bytes_but_keeps_the_program_that_was_stored_last() {
        let store = ProgramStore::default();
        store.insert(id(0), program(), BYTES_MAX / 2);
        store.insert(id(1), program(), BYTES_MAX / 2);
        assert_eq!(store.get(id(0)), Err(Error::NotFound));
        store.insert(id(2), program(), BYTES_MAX);
        assert_eq!(store.get(id(1)), Err(Error::NotFound));
        assert!(store.get(id(2)).is_ok());
        assert_eq!(store.0.lock().by_id.len(), 1);
    }
}
