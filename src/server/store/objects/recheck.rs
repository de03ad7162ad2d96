//! Hashes stored objects again: memory and disks can change what was checked once.

use super::{
    ObjectStore,
    index::{ForgottenObjects, ObjectKey},
    object::{ObjectData, StoredObject},
};
use crate::{
    curve::points,
    sparse,
    tenant::{Tenant, TenantId},
    wire::decode::ObjectId,
};

/// Bytes hashed between two pauses, which takes some milliseconds.
const PIECE_BYTES: usize = 8 << 20;

/// What a check of an object has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObjectCheck {
    Intact,
    /// The tenant does not have the object any more.
    Damaged {
        /// Other tenants that do not have it any more, because it was in the same memory.
        others: Vec<TenantId>,
    },
    /// It was released or put again meanwhile, or the check was stopped.
    Unknown,
}

impl ObjectStore {
    /// Hashes a tenant's object again, which blocks. Calls `may_go_on` before each piece, which may
    /// pause. Forgets the object if its content does not suit its id: its file stays until the
    /// object is put again or released, and calls that have begun with a file fail.
    pub fn check_again(
        &self,
        tenant: &Tenant,
        id: ObjectId,
        may_go_on: impl Fn() -> bool,
    ) -> ObjectCheck {
        let Ok(object) = self.get(tenant.id, id) else { return ObjectCheck::Unknown };
        let mut hasher = object.data.content_hasher();
        for piece in object.data.as_bytes().chunks(PIECE_BYTES) {
            if !may_go_on() {
                return ObjectCheck::Unknown;
            }
            hasher.update(piece);
        }
        if *hasher.finalize().as_bytes() == id.0 && object.data.is_intact() {
            return ObjectCheck::Intact;
        }
        object.data.mark_damaged();
        let key = ObjectKey { id, tenant: tenant.id };
        let forgotten = self.state.lock().forget_damaged(key, &tenant.name, &object);
        let ForgottenObjects { others, objects } = forgotten;
        drop(object);
        objects.into_iter().for_each(StoredObject::free);
        ObjectCheck::Damaged { others }
    }
}

impl ObjectData {
    /// A hasher of the content hash, before the bytes of the object.
    fn content_hasher(&self) -> blake3::Hasher {
        match self {
            Self::Bases(bases) => points::content_hasher(bases.points.group()),
            Self::Matrix(matrix) => sparse::content_hasher(matrix.shape()),
        }
    }

    fn mark_damaged(&self) {
        match self {
            Self::Bases(bases) => bases.points.mark_damaged(),
            Self::Matrix(matrix) => matrix.mark_damaged(),
        }
    }
}
