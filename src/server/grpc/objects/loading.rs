//! Loads the data directory while the server already listens, and tells whether it is ready.

use std::{io, sync::Arc, thread, time::Instant};

use tokio::runtime::Handle;
use tracing::info;

use crate::grpc::{devices::preload, state::ServerState};

/// Loads the files of the data directory on a thread, until the server drains, and then the bases
/// that devices preload. Called on a thread of the runtime.
///
/// Errors: no thread can be started.
pub fn start(state: &Arc<ServerState>) -> io::Result<()> {
    if !state.objects.is_loading() && state.preload.is_empty() {
        state.is_loaded.send_replace(true);
        return Ok(());
    }
    let state = state.clone();
    let runtime = Handle::current();
    let load = move || {
        let begun = Instant::now();
        state.objects.load(&state.tenants, || state.drain.is_draining());
        let (objects, bytes) = (state.objects.slots().used(), state.objects.budget().used());
        let ms = begun.elapsed().as_millis() as u64;
        if state.objects.is_loading() {
            info!(objects, bytes, ms, "the server drains: the data directory is loaded in part");
        } else {
            info!(objects, bytes, ms, "the data directory is loaded");
        }
        runtime.block_on(preload::run(&state));
        // Nothing waits for more files, whether all are loaded or not.
        state.is_loaded.send_replace(true);
    };
    thread::Builder::new().name("capstan-load".into()).spawn(load).map(drop)
}

/// Waits until the files are loaded.
pub async fn wait(state: &ServerState) {
    let mut is_loaded = state.is_loaded.subscribe();
    // The sender lives as long as the state.
    let _loaded = is_loaded.wait_for(|is_loaded| *is_loaded).await;
}

/// Tells whether a server is ready for work.
#[derive(Clone)]
pub struct Readiness {
    pub(in crate::grpc) state: Arc<ServerState>,
}

impl Readiness {
    /// Checks that the server neither loads its data directory nor drains, and that at least
    /// `gpus_min` GPUs serve.
    ///
    /// Errors: why it is not ready.
    pub fn check(&self, gpus_min: u32) -> Result<(), String> {
        if self.state.drain.is_draining() {
            return Err("draining".into());
        }
        if !*self.state.is_loaded.borrow() {
            return Err("loading stored objects".into());
        }
        match self.state.compute.executor.gpus_serving() {
            gpus if gpus < gpus_min as usize => {
                Err(format!("{gpus} GPUs serve, and cuda_devices_min is {gpus_min}"))
            }
            _ => Ok(()),
        }
    }

    /// Waits until the data directory is loaded.
    pub async fn loaded(&self) {
        wait(&self.state).await;
    }
}
