//! An LRU cache with single flight: values are built once, kept for reuse and bounded in bytes. The
//! least recently used value is evicted first; its users keep it alive.
//!
//! The builder of a value holds that value's own lock meanwhile: callers that want the same value
//! wait for it, and no others do.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// An LRU cache of values.
pub(super) struct LruCache<K, V> {
    bytes_max: u64,
    /// The most recently used entry is last. Locked for lookups only.
    entries: Mutex<Vec<LruEntry<K, V>>>,
}

/// A cached value, or one that is being built.
struct LruEntry<K, V> {
    key: K,
    bytes: u64,
    slot: Arc<LruSlot<V>>,
}

/// The place of a value.
struct LruSlot<V> {
    value: OnceLock<Arc<V>>,
    /// Held by the builder; true once a build has started.
    build_started: Mutex<bool>,
}

/// A build in progress: removes the entry if the build fails or panics.
struct BuildGuard<'a, K, V> {
    kept: &'a LruCache<K, V>,
    slot: &'a Arc<LruSlot<V>>,
}

impl<K: Clone + PartialEq, V> LruCache<K, V> {
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes_max, entries: Mutex::default() }
    }

    pub const fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// The value of `key`, built if it is not cached. It takes `bytes`; a value of more than
    /// `bytes_max` is not cached.
    ///
    /// Errors: those of `make`; the next caller then tries again.
    pub fn get_or_build<E>(
        &self,
        key: &K,
        bytes: u64,
        make: impl FnOnce() -> Result<V, E>,
    ) -> Result<Arc<V>, E> {
        if bytes > self.bytes_max {
            drop(self.evict_for(&mut self.lock(), bytes));
            return make().map(Arc::new);
        }
        loop {
            let slot = self.slot(key, bytes);
            if let Some(value) = slot.value.get() {
                return Ok(value.clone());
            }
            let mut tried = slot.build_started.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(value) = slot.value.get() {
                return Ok(value.clone());
            }
            if *tried {
                // That build failed, and its entry is removed.
                continue;
            }
            *tried = true;
            let _making = BuildGuard { kept: self, slot: &slot };
            let value = make()?;
            return Ok(slot.value.get_or_init(|| Arc::new(value)).clone());
        }
    }

    /// Evicts the least recently used value; false if there is none.
    pub fn evict_oldest(&self) -> bool {
        let oldest = {
            let mut entries = self.lock();
            let at = entries.iter().position(LruEntry::is_built);
            at.map(|at| entries.remove(at))
        };
        oldest.is_some()
    }

    /// Evicts all values, including those being built.
    pub fn clear(&self) {
        let all = std::mem::take(&mut *self.lock());
        drop(all);
    }

    /// Bytes of the cached values.
    pub fn bytes(&self) -> u64 {
        self.lock().iter().filter(|entry| entry.is_built()).map(|entry| entry.bytes).sum()
    }

    /// The slot of `key`, which becomes the most recently used.
    fn slot(&self, key: &K, bytes: u64) -> Arc<LruSlot<V>> {
        let mut gone = Vec::new();
        let mut entries = self.lock();
        let entry = match entries.iter().position(|entry| entry.key == *key) {
            Some(found) => entries.remove(found),
            None => {
                gone = self.evict_for(&mut entries, bytes);
                let slot = LruSlot { value: OnceLock::new(), build_started: Mutex::new(false) };
                LruEntry { key: key.clone(), bytes, slot: Arc::new(slot) }
            }
        };
        let slot = entry.slot.clone();
        entries.push(entry);
        drop(entries);
        drop(gone);
        slot
    }

    /// Evicts entries until `bytes` more fit, and returns them.
    fn evict_for(&self, entries: &mut Vec<LruEntry<K, V>>, bytes: u64) -> Vec<LruEntry<K, V>> {
        let mut held: u64 = entries.iter().map(|entry| entry.bytes).sum();
        let mut gone = 0;
        while gone < entries.len() && held + bytes > self.bytes_max {
            held -= entries[gone].bytes;
            gone += 1;
        }
        entries.drain(..gone).collect()
    }
}

impl<K, V> LruCache<K, V> {
    fn lock(&self) -> MutexGuard<'_, Vec<LruEntry<K, V>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K, V> LruEntry<K, V> {
    fn is_built(&self) -> bool {
        self.slot.value.get().is_some()
    }
}

impl<K, V> Drop for BuildGuard<'_, K, V> {
    fn drop(&mut self) {
        if self.slot.value.get().is_none() {
            self.kept.lock().retain(|entry| !Arc::ptr_eq(&entry.slot, self.slot));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{panic, sync::mpsc, thread};

    use super::*;

    type Numbers = LruCache<u32, u32>;

    fn made(kept: &Numbers, key: u32) -> Arc<u32> {
        kept.get_or_build(&key, 1, || Ok::<_, ()>(key)).unwrap()
    }

    fn keys(kept: &Numbers) -> Vec<u32> {
        kept.lock().iter().map(|entry| entry.key).collect()
    }

    /// Builds `key` on another thread, which pauses in the build until `meanwhile` is done.
    fn while_made<T: Send>(
        kept: &Numbers,
        key: u32,
        result: Result<u32, ()>,
        meanwhile: impl FnOnce() -> T,
    ) -> (Result<Arc<u32>, ()>, T) {
        let (begins, begun) = mpsc::channel();
        let (goes_on, go_on) = mpsc::channel();
        thread::scope(|scope| {
            let maker = scope.spawn(move || {
                kept.get_or_build(&key, 1, || {
                    begins.send(()).unwrap();
                    go_on.recv().unwrap();
                    result
                })
            });
            begun.recv().unwrap();
            let seen = meanwhile();
            goes_on.send(()).unwrap();
            (maker.join().unwrap(), seen)
        })
    }

    #[test]
    fn a_build_does_not_block_other_keys() {
        let kept = Numbers::new(10);
        made(&kept, 1);
        let (two, ()) = while_made(&kept, 2, Ok(2), || {
            // A cached key and a new key.
            let one = kept.get_or_build(&1, 1, || Err::<u32, _>("made again")).unwrap();
            assert_eq!((*one, *made(&kept, 3)), (1, 3));
            assert_eq!(kept.bytes(), 2);
            // A value that is too large to be cached.
            assert_eq!(*kept.get_or_build(&4, 11, || Ok::<_, ()>(4)).unwrap(), 4);
            assert_eq!(kept.bytes(), 0);
        });
        assert_eq!(*two.unwrap(), 2);
    }

    #[test]
    fn callers_of_one_key_share_a_single_build() {
        let kept = Numbers::new(10);
        let again = || kept.get_or_build(&2, 1, || Err("made again"));
        thread::scope(|scope| {
            let (two, waiter) = while_made(&kept, 2, Ok(2), || scope.spawn(again));
            let found = waiter.join().unwrap().unwrap();
            assert!(Arc::ptr_eq(&two.unwrap(), &found));
        });
    }

    #[test]
    fn a_failed_build_is_retried() {
        let kept = Numbers::new(10);
        thread::scope(|scope| {
            let (failed, waiter) =
                while_made(&kept, 2, Err(()), || scope.spawn(|| *made(&kept, 2)));
            assert_eq!((failed.is_err(), waiter.join().unwrap()), (true, 2));
        });
        let panics = || kept.get_or_build(&3, 9, || -> Result<u32, ()> { panic!("intended") });
        assert!(panic::catch_unwind(panic::AssertUnwindSafe(panics)).is_err());
        // Failed builds hold no bytes: both values fit, and the first is still cached.
        assert_eq!((*made(&kept, 3), kept.bytes()), (3, 2));
        assert!(kept.get_or_build(&2, 1, || Err("made again")).is_ok());
    }

    #[test]
    fn evicts_the_least_recently_used_value() {
        let kept = Numbers::new(3);
        let held = made(&kept, 1);
        for key in [2, 3, 1, 4] {
            made(&kept, key);
        }
        assert_eq!((keys(&kept), kept.bytes()), (vec![3, 1, 4], 3));
        let two = kept.get_or_build(&5, 2, || Ok::<_, ()>(5)).unwrap();
        assert_eq!((keys(&kept), kept.bytes()), (vec![4, 5], 3));
        assert!(kept.evict_oldest() && kept.evict_oldest() && !kept.evict_oldest());
        assert_eq!((*held, *two, kept.bytes()), (1, 5, 0));
    }

    /// A build counts toward the bound; `evict_oldest` skips it, but it may be evicted otherwise.
    #[test]
    fn builds_count_toward_the_bound() {
        let kept = Numbers::new(3);
        let (two, ()) = while_made(&kept, 2, Ok(2), || {
            assert!(!kept.evict_oldest());
            made(&kept, 3);
            made(&kept, 4);
            made(&kept, 5);
            assert_eq!(kept.bytes(), 3);
        });
        assert_eq!((*two.unwrap(), kept.bytes()), (2, 3));
        assert_eq!(*kept.get_or_build(&2, 1, || Ok::<_, ()>(7)).unwrap(), 7);
        let (eight, ()) = while_made(&kept, 8, Ok(8), || kept.clear());
        assert_eq!((*eight.unwrap(), kept.bytes(), keys(&kept)), (8, 0, vec![]));
    }
}
