//! An LRU cache with single flight: values are built once, kept for reuse and bounded in bytes and
//! number. The least recently used value is evicted first; its users keep it alive.
//!
//! The builder of a value holds that value's own lock meanwhile: callers that want the same value
//! wait for it, and no others do.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

/// Entries are searched one by one. A few hundred serve all sizes of transforms; each further coset
/// takes a few.
const ENTRIES_MAX: usize = 1024;

pub(crate) struct LruCache<K, V> {
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

struct LruSlot<V> {
    value: OnceLock<Arc<V>>,
    /// Held by the builder; true once a build has started.
    build_started: Mutex<bool>,
}

/// A build in progress: removes the entry if the build fails or panics.
struct BuildGuard<'a, K, V> {
    cache: &'a LruCache<K, V>,
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
    /// Errors: those of `build`; the next caller then tries again.
    pub fn get_or_build<E>(
        &self,
        key: &K,
        bytes: u64,
        build: impl FnOnce() -> Result<V, E>,
    ) -> Result<Arc<V>, E> {
        if bytes > self.bytes_max {
            drop(self.evict_for(&mut self.entries.lock(), bytes));
            return build().map(Arc::new);
        }
        loop {
            let slot = self.slot(key, bytes);
            if let Some(value) = slot.value.get() {
                return Ok(value.clone());
            }
            let mut build_started = slot.build_started.lock();
            if let Some(value) = slot.value.get() {
                return Ok(value.clone());
            }
            if *build_started {
                // That build failed, and its entry is removed.
                continue;
            }
            *build_started = true;
            let _guard = BuildGuard { cache: self, slot: &slot };
            let value = build()?;
            return Ok(slot.value.get_or_init(|| Arc::new(value)).clone());
        }
    }

    /// Evicts the least recently used value; false if there is none.
    pub fn evict_oldest(&self) -> bool {
        let mut entries = self.entries.lock();
        let oldest = entries.iter().position(LruEntry::is_built).map(|index| entries.remove(index));
        drop(entries);
        oldest.is_some()
    }

    /// Evicts all values, including those being built.
    pub fn clear(&self) {
        let all = std::mem::take(&mut *self.entries.lock());
        drop(all);
    }

    /// The slot of `key`, which becomes the most recently used.
    fn slot(&self, key: &K, bytes: u64) -> Arc<LruSlot<V>> {
        let mut evicted = Vec::new();
        let mut entries = self.entries.lock();
        let entry = match entries.iter().position(|entry| entry.key == *key) {
            Some(found) => entries.remove(found),
            None => {
                evicted = self.evict_for(&mut entries, bytes);
                let slot = LruSlot { value: OnceLock::new(), build_started: Mutex::new(false) };
                LruEntry { key: key.clone(), bytes, slot: Arc::new(slot) }
            }
        };
        let slot = entry.slot.clone();
        entries.push(entry);
        drop(entries);
        drop(evicted);
        slot
    }

    /// Evicts entries until `bytes` more fit, and returns them.
    fn evict_for(&self, entries: &mut Vec<LruEntry<K, V>>, bytes: u64) -> Vec<LruEntry<K, V>> {
        let mut bytes_held: u64 = entries.iter().map(|entry| entry.bytes).sum();
        let mut evicted = 0;
        let is_full = |evicted: usize, bytes_held: u64| {
            entries.len() - evicted >= ENTRIES_MAX || bytes_held + bytes > self.bytes_max
        };
        while evicted < entries.len() && is_full(evicted, bytes_held) {
            bytes_held -= entries[evicted].bytes;
            evicted += 1;
        }
        entries.drain(..evicted).collect()
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
            self.cache.entries.lock().retain(|entry| !Arc::ptr_eq(&entry.slot, self.slot));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{panic, sync::mpsc, thread};

    use super::*;

    type Numbers = LruCache<u32, u32>;

    fn build(cache: &Numbers, key: u32) -> Arc<u32> {
        cache.get_or_build(&key, 1, || Ok::<_, ()>(key)).unwrap()
    }

    /// The bytes of all values that are built.
    fn bytes(cache: &Numbers) -> u64 {
        let entries = cache.entries.lock();
        entries.iter().filter(|entry| entry.is_built()).map(|entry| entry.bytes).sum()
    }

    fn keys(cache: &Numbers) -> Vec<u32> {
        cache.entries.lock().iter().map(|entry| entry.key).collect()
    }

    /// Builds `key` on another thread, which pauses in the build until `meanwhile` is done.
    fn while_building<T: Send>(
        cache: &Numbers,
        key: u32,
        result: Result<u32, ()>,
        meanwhile: impl FnOnce() -> T,
    ) -> (Result<Arc<u32>, ()>, T) {
        let (begins, begun) = mpsc::channel();
        let (goes_on, go_on) = mpsc::channel();
        thread::scope(|scope| {
            let builder = scope.spawn(move || {
                cache.get_or_build(&key, 1, || {
                    begins.send(()).unwrap();
                    go_on.recv().unwrap();
                    result
                })
            });
            begun.recv().unwrap();
            let seen = meanwhile();
            goes_on.send(()).unwrap();
            (builder.join().unwrap(), seen)
        })
    }

    #[test]
    fn a_build_does_not_block_other_keys() {
        let cache = Numbers::new(10);
        build(&cache, 1);
        let (two, ()) = while_building(&cache, 2, Ok(2), || {
            // A cached key and a new key.
            let one = cache.get_or_build(&1, 1, || Err::<u32, _>("built again")).unwrap();
            assert_eq!((*one, *build(&cache, 3)), (1, 3));
            assert_eq!(bytes(&cache), 2);
            // A value that is too large to be cached.
            assert_eq!(*cache.get_or_build(&4, 11, || Ok::<_, ()>(4)).unwrap(), 4);
            assert_eq!(bytes(&cache), 0);
        });
        assert_eq!(*two.unwrap(), 2);
    }

    #[test]
    fn callers_of_one_key_share_a_single_build() {
        let cache = Numbers::new(10);
        let again = || cache.get_or_build(&2, 1, || Err("built again"));
        thread::scope(|scope| {
            let (two, waiter) = while_building(&cache, 2, Ok(2), || scope.spawn(again));
            let found = waiter.join().unwrap().unwrap();
            assert!(Arc::ptr_eq(&two.unwrap(), &found));
        });
    }

    #[test]
    fn a_failed_build_is_retried() {
        let cache = Numbers::new(10);
        thread::scope(|scope| {
            let (failed, waiter) =
                while_building(&cache, 2, Err(()), || scope.spawn(|| *build(&cache, 2)));
            assert_eq!((failed.is_err(), waiter.join().unwrap()), (true, 2));
        });
        let panics = || cache.get_or_build(&3, 9, || -> Result<u32, ()> { panic!("intended") });
        assert!(panic::catch_unwind(panic::AssertUnwindSafe(panics)).is_err());
        // Failed builds hold no bytes: both values fit, and the first is still cached.
        assert_eq!((*build(&cache, 3), bytes(&cache)), (3, 2));
        assert!(cache.get_or_build(&2, 1, || Err("built again")).is_ok());
    }

    #[test]
    fn evicts_the_least_recently_used_value() {
        let cache = Numbers::new(3);
        let held = build(&cache, 1);
        for key in [2, 3, 1, 4] {
            build(&cache, key);
        }
        assert_eq!((keys(&cache), bytes(&cache)), (vec![3, 1, 4], 3));
        let two = cache.get_or_build(&5, 2, || Ok::<_, ()>(5)).unwrap();
        assert_eq!((keys(&cache), bytes(&cache)), (vec![4, 5], 3));
        assert!(cache.evict_oldest() && cache.evict_oldest() && !cache.evict_oldest());
        assert_eq!((*held, *two, bytes(&cache)), (1, 5, 0));
    }

    #[test]
    fn the_number_of_values_is_bounded() {
        let cache = Numbers::new(u64::MAX);
        for key in 0..ENTRIES_MAX as u32 + 10 {
            build(&cache, key);
        }
        assert_eq!(keys(&cache), (10..ENTRIES_MAX as u32 + 10).collect::<Vec<_>>());
    }

    /// A build counts toward the bound; `evict_oldest` skips it, but it may be evicted otherwise.
    #[test]
    fn builds_count_toward_the_bound() {
        let cache = Numbers::new(3);
        let (two, ()) = while_building(&cache, 2, Ok(2), || {
            assert!(!cache.evict_oldest());
            build(&cache, 3);
            build(&cache, 4);
            build(&cache, 5);
            assert_eq!(bytes(&cache), 3);
        });
        assert_eq!((*two.unwrap(), bytes(&cache)), (2, 3));
        assert_eq!(*cache.get_or_build(&2, 1, || Ok::<_, ()>(7)).unwrap(), 7);
        let (eight, ()) = while_building(&cache, 8, Ok(8), || cache.clear());
        assert_eq!((*eight.unwrap(), bytes(&cache), keys(&cache)), (8, 0, vec![]));
    }
}
