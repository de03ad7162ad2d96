//! Locks, threads and atomics of the parts that are model-checked. With the feature `model-checks`,
//! they are those of shuttle, which chooses the order of threads; otherwise, those of the system.

#[cfg(feature = "model-checks")]
mod checked;

#[cfg(feature = "model-checks")]
pub use self::checked::*;

#[cfg(not(feature = "model-checks"))]
pub use std::{
    sync::{OnceLock, atomic, mpsc},
    thread,
};

#[cfg(not(feature = "model-checks"))]
pub use parking_lot::{Condvar, Mutex, MutexGuard};
