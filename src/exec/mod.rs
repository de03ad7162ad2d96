//! Runs programs. [`HostExecutor`] keeps values in host memory, [`GpuExecutor`] in that of a GPU.

mod call;
mod executor;
#[cfg(feature = "cuda")]
mod gpu;
mod host;
mod operands;
mod report;

pub use executor::{Executor, RunInProgress};
#[cfg(feature = "cuda")]
pub use gpu::GpuExecutor;
pub use host::HostExecutor;
pub use operands::{ElementSink, RunOperands};
pub use report::{ModelledTime, RunReport, StepReport};

#[cfg(feature = "cuda")]
use std::any::Any;
use std::sync::Arc;

use crate::engine::Engine;

/// The executor for an engine: its GPUs, if it has some, else `host`.
#[cfg(feature = "cuda")]
pub fn executor_of(engine: Arc<dyn Engine>, host: HostExecutor) -> Arc<dyn Executor> {
    let engine: Arc<dyn Any + Send + Sync> = engine;
    match engine.downcast() {
        Ok(engine) => Arc::new(GpuExecutor { engine, host }),
        Err(_) => Arc::new(host),
    }
}

#[cfg(not(feature = "cuda"))]
pub fn executor_of(_: Arc<dyn Engine>, host: HostExecutor) -> Arc<dyn Executor> {
    Arc::new(host)
}
