//! shuttle's locks with the interface of `parking_lot`.

use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::{self, PoisonError, TryLockError},
    time::Duration,
};

pub use shuttle::{
    sync::{atomic, mpsc},
    thread,
};

/// A lock that a panic does not poison.
#[derive(Default)]
pub struct Mutex<T>(shuttle::sync::Mutex<T>);

/// Holds a [`Mutex`].
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    /// `None` only while the lock is released for a wait.
    held: Option<shuttle::sync::MutexGuard<'a, T>>,
}

const HELD: &str = "held outside of waits";

impl<T> Mutex<T> {
    pub const fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard { mutex: self, held: Some(self.acquire()) }
    }

    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let held = match self.0.try_lock() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(held)) => held.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(MutexGuard { mutex: self, held: Some(held) })
    }

    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    fn acquire(&self) -> shuttle::sync::MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'a, T> MutexGuard<'a, T> {
    /// Releases the lock during `call`.
    pub fn unlocked<U>(guard: &mut Self, call: impl FnOnce() -> U) -> U {
        guard.held = None;
        let result = call();
        guard.held = Some(guard.mutex.acquire());
        result
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.held.as_ref().expect(HELD)
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().expect(HELD)
    }
}

#[derive(Debug, Default)]
pub struct Condvar(shuttle::sync::Condvar);

impl Condvar {
    pub const fn new() -> Self {
        Self(shuttle::sync::Condvar::new())
    }

    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.held.take().expect(HELD);
        guard.held = Some(self.0.wait(held).unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits for no notification: the time may have passed at any moment.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _: Duration) {
        MutexGuard::unlocked(guard, thread::yield_now);
    }

    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// A cell that is written once. While one thread initialises it, others wait.
#[derive(Debug, Default)]
pub struct OnceLock<T> {
    value: sync::OnceLock<T>,
    initialising: Mutex<()>,
}

impl<T> OnceLock<T> {
    pub fn get_or_init(&self, init: impl FnOnce() -> T) -> &T {
        let _waits = self.initialising.lock();
        match self.value.get() {
            Some(value) => value,
            None => {
                let value = init();
                self.value.get_or_init(|| value)
            }
        }
    }
}
