//! Shared by the tests: a server in this process, and turns for tests that read the counts.
#![allow(dead_code, unused_imports)] // no test file uses everything

#[path = "../../../../examples/common/mod.rs"]
mod lessons;
pub mod squarings;

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use capstan::client::{Client, blocking::BlockingClient};
use capstan_arkworks::{Counts, Offload, OffloadOptions, install_with};
pub use lessons::{TestServer, points, scalars, server};

/// A pause that no test outlives.
const FOREVER: Duration = Duration::MAX;

/// Options that send every MSM, and wait for the server as long as a test may take.
pub fn all_sizes() -> OffloadOptions {
    OffloadOptions {
        msm_min: 1,
        deadline: Duration::from_secs(300),
        pause: FOREVER,
        ..Default::default()
    }
}

/// Connects without retries, so that a test needs not wait for a server that has stopped.
pub fn offload_to(server: &TestServer, options: OffloadOptions) -> Offload {
    let client = Client::builder(&server.target).retries(0);
    let client = BlockingClient::from_builder(client).expect("the server listens");
    install_with(client, options).expect("no other hook is set")
}

/// Lets one test of the process compute at a time: the counts are those of the process.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    // A test that failed has said so.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn counted<T>(work: impl FnOnce() -> T) -> (T, Counts) {
    let before = capstan_arkworks::counts();
    let done = work();
    (done, capstan_arkworks::counts().since(before))
}

pub const fn only_offloaded(offloaded: u64) -> Counts {
    Counts { offloaded, local: 0, failed: 0 }
}

pub const fn only_local(local: u64) -> Counts {
    Counts { offloaded: 0, local, failed: 0 }
}
