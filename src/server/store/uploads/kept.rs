//! Vectors that a call keeps under ids that its client chose.

use std::sync::Arc;

use super::{UploadHeader, UploadOwner, UploadSlot, Uploads, UploadsById};
use crate::{
    buffer::UploadBuffer,
    error::{Error, Result},
    tenant::TenantId,
    wire::decode::VectorUploadHeader,
};

/// Vectors to keep, with a slot for each.
pub struct KeptVectors(Vec<KeptVector>);

struct KeptVector {
    vector: VectorUploadHeader,
    slot: UploadSlot,
}

impl Uploads {
    /// Takes slots for vectors to keep, and checks that their ids are free or belong to complete
    /// vectors of the same encoding and length.
    ///
    /// Errors: `UploadConflict`, `Exhausted`.
    pub fn reserve(
        &self,
        owner: UploadOwner<'_>,
        vectors: Vec<VectorUploadHeader>,
    ) -> Result<KeptVectors> {
        {
            let all = self.by_id.lock();
            vectors.iter().try_for_each(|vector| check_id(&all, owner.tenant.id, vector))?;
        }
        let slot = || UploadSlot::take(owner, &owner.tenant.vectors, &self.slots);
        let with_slot = |vector| Ok(KeptVector { vector, slot: slot()? });
        Ok(KeptVectors(vectors.into_iter().map(with_slot).collect::<Result<_>>()?))
    }

    /// Stores the vectors, or none of them. `payloads` has one payload for each.
    ///
    /// Errors: `UploadConflict` if an id has been taken since it was reserved.
    pub fn keep(&self, kept: KeptVectors, payloads: Vec<Arc<UploadBuffer>>) -> Result<()> {
        let mut replaced = Vec::new();
        let mut all = self.by_id.lock();
        kept.0.iter().try_for_each(|kept| check_id(&all, kept.slot.tenant, &kept.vector))?;
        for (KeptVector { vector, slot }, payload) in kept.0.into_iter().zip(payloads) {
            let key = (slot.tenant, vector.id);
            let header = UploadHeader::Vector(vector);
            let upload = self.stored(header, payload, slot);
            replaced.extend(all.insert(key, upload));
        }
        // Before the replaced vectors are dropped.
        drop(all);
        Ok(())
    }
}

fn check_id(all: &UploadsById, tenant: TenantId, vector: &VectorUploadHeader) -> Result<()> {
    let Some(held) = all.get(&(tenant, vector.id)) else { return Ok(()) };
    let is_same = held.header.describes_payload_of(&UploadHeader::Vector(vector.clone()));
    let can_replace = is_same && held.payload.is_complete();
    can_replace.then_some(()).ok_or(Error::UploadConflict)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        buffer::PayloadPool, curve::scalars::ScalarEncoding, error::Limit, tenant::Tenants,
        wire::decode::UploadId,
    };

    fn vector(id: u8, count: u64) -> VectorUploadHeader {
        let encoding = ScalarEncoding::Canonical;
        VectorUploadHeader { id: UploadId([id; 16]), encoding, count, streams: 1 }
    }

    #[test]
    fn replaces_equal_vectors_and_refuses_ids_that_are_in_use_otherwise() {
        let pool = PayloadPool::new(0, 0).unwrap();
        let uploads = Uploads::new(4, pool.clone());
        let tenants = Tenants::default();
        let tenant = &*tenants.find(None, "").unwrap();
        let owner = UploadOwner::of_tenant(tenant);
        let payload =
            |byte| Arc::new(UploadBuffer::from_bytes(&pool, &[byte; 32], vec![]).unwrap());
        let held = || uploads.get(tenant.id, UploadId([1; 16])).unwrap().payload.copy(0, 1);
        let first = uploads.reserve(owner, vec![vector(1, 1)]).unwrap();
        uploads.keep(first, vec![payload(1)]).unwrap();
        let refused =
            |vectors| matches!(uploads.reserve(owner, vectors), Err(Error::UploadConflict));
        assert!(refused(vec![vector(1, 2)]), "another length");
        // An upload takes an id after it was reserved: no vector is stored.
        let both = uploads.reserve(owner, vec![vector(1, 1), vector(2, 1)]).unwrap();
        uploads.open(owner, &UploadHeader::Vector(vector(2, 1)), |_| Ok(vec![])).unwrap();
        assert_eq!(uploads.keep(both, vec![payload(2), payload(2)]), Err(Error::UploadConflict));
        assert_eq!(held(), [1]);
        assert!(refused(vec![vector(2, 1)]), "an upload in progress");
        let second = uploads.reserve(owner, vec![vector(1, 1)]).unwrap();
        uploads.keep(second, vec![payload(2)]).unwrap();
        assert_eq!(held(), [2]);
        // The slot of the replaced vector is free again.
        let _reserved = uploads.reserve(owner, vec![vector(3, 1), vector(4, 1)]).unwrap();
        let full = uploads.reserve(owner, vec![vector(5, 1)]);
        assert_eq!(full.err().and_then(|full| full.limit()), Some(Limit::Uploads));
    }
}
