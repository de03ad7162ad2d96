//! Keys by which a proxy in front of several servers chooses the one that serves a call.
//!
//! A key says which calls belong together, and nothing else: proxies see it, and may log it. Keys
//! of bases, matrices and programs are their ids, which are hashes of public content. The id of an
//! upload is a secret, so its key is a hash of it. Scalars never influence a key.

use std::{collections::HashMap, fmt};

use parking_lot::Mutex;
use tonic::codegen::http::{HeaderMap, HeaderValue};

use crate::wire::{AFFINITY_METADATA, INSTANCE_HEADER};
use crate::{
    BasesId, UploadKey,
    error::{ClientError, Result},
};

/// Context of the hash from an upload's id to its key.
const UPLOAD_CONTEXT: &str = "capstan 2026-11 affinity key of an upload";
const NAME_BYTES_MAX: usize = 128;
/// Vectors whose calls have another key than their own. Beyond that, one is forgotten.
const VECTORS_MAX: usize = 4096;

/// The value of `capstan-affinity`.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct AffinityKey(HeaderValue);

impl AffinityKey {
    /// Errors: `InvalidSetting` unless the name has 1 to 128 visible ASCII characters.
    pub fn named(name: &str) -> Result<Self> {
        let is_visible = name.bytes().all(|byte| byte.is_ascii_graphic());
        let value = HeaderValue::from_str(name).ok();
        let fits = is_visible && (1..=NAME_BYTES_MAX).contains(&name.len());
        value.filter(|_| fits).map(Self).ok_or_else(|| {
            let problem = format!("must have 1 to {NAME_BYTES_MAX} visible ASCII characters");
            ClientError::setting("affinity", problem)
        })
    }

    /// A key that no other client has.
    pub fn random() -> Result<Self> {
        UploadKey::random().map(Self::of_upload)
    }

    pub fn of_bases(id: BasesId) -> Self {
        Self::of_object(&id.0)
    }

    /// The key of a matrix, a program, or bases.
    pub fn of_object(id: &[u8]) -> Self {
        let value = HeaderValue::from_maybe_shared(hex::encode(id));
        Self(value.expect("hex digits are visible ASCII"))
    }

    pub fn of_upload(id: UploadKey) -> Self {
        let hash = blake3::derive_key(UPLOAD_CONTEXT, &id.0);
        Self::of_object(&hash[..16])
    }
}

impl fmt::Debug for AffinityKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// Where a call must go.
#[derive(Clone, Default)]
pub(crate) struct CallRoute {
    /// `None` if any server may serve it.
    pub affinity: Option<AffinityKey>,
    /// The only server that may serve it: others refuse it.
    pub instance: Option<HeaderValue>,
}

impl CallRoute {
    pub fn add_to(&self, headers: &mut HeaderMap) {
        if let Some(AffinityKey(value)) = &self.affinity {
            headers.insert(AFFINITY_METADATA, value.clone());
        }
        if let Some(instance) = &self.instance {
            headers.insert(INSTANCE_HEADER, instance.clone());
        }
    }
}

impl From<AffinityKey> for CallRoute {
    fn from(key: AffinityKey) -> Self {
        Self { affinity: Some(key), instance: None }
    }
}

/// The keys of vectors that a call with another key than theirs has put or kept.
#[derive(Default)]
pub(crate) struct VectorKeys(Mutex<HashMap<[u8; 16], AffinityKey>>);

impl VectorKeys {
    pub fn get(&self, id: UploadKey) -> AffinityKey {
        let key = self.0.lock().get(&id.0).cloned();
        key.unwrap_or_else(|| AffinityKey::of_upload(id))
    }

    pub fn insert(&self, id: UploadKey, key: AffinityKey) {
        let mut keys = self.0.lock();
        if keys.len() >= VECTORS_MAX
            && let Some(oldest) = keys.keys().next().copied()
        {
            keys.remove(&oldest);
        }
        keys.insert(id.0, key);
    }

    pub fn remove(&self, id: UploadKey) {
        self.0.lock().remove(&id.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_name_public_content_and_hide_the_ids_of_uploads() {
        let id = UploadKey([7; 16]);
        let key = AffinityKey::of_upload(id);
        assert_eq!(key, AffinityKey::of_upload(id));
        assert_ne!(key, AffinityKey::of_upload(UploadKey([8; 16])));
        assert!(!format!("{key:?}").contains(&hex::encode([7; 4])), "{key:?}");
        let bases = AffinityKey::of_bases(BasesId([0xab; 32]));
        assert_eq!(format!("{bases:?}"), format!("{:?}", "ab".repeat(32)));
    }

    #[test]
    fn names_are_visible_ascii() {
        for name in ["a", "key-7", &"x".repeat(128)] {
            assert!(AffinityKey::named(name).is_ok(), "{name}");
        }
        for name in ["", "a b", "a\r\nb", "\u{e9}", &"x".repeat(129)] {
            assert!(AffinityKey::named(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn the_keys_of_vectors_are_bounded() {
        let (keys, other) = (VectorKeys::default(), AffinityKey::named("other").unwrap());
        let id = |number: usize| {
            let mut id = [0; 16];
            id[..8].copy_from_slice(&number.to_le_bytes());
            UploadKey(id)
        };
        for number in 0..VECTORS_MAX + 10 {
            keys.insert(id(number), other.clone());
        }
        assert_eq!(keys.0.lock().len(), VECTORS_MAX);
        assert_eq!(keys.get(id(VECTORS_MAX + 9)), other);
        keys.remove(id(VECTORS_MAX + 9));
        assert_eq!(keys.get(id(VECTORS_MAX + 9)), AffinityKey::of_upload(id(VECTORS_MAX + 9)));
    }
}
