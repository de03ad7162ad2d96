//! Programs on the host: values in memory, NTTs and MSMs on an engine, everything else on the
//! current rayon pool.

mod run;

use std::sync::Arc;

use self::run::HostRun;
use super::{Executor, RunInProgress, call::RunCall};
use crate::engine::Engine;

#[derive(Clone)]
pub struct HostExecutor {
    pub engine: Arc<dyn Engine>,
    /// Makes each value again if the caller wants the full check.
    pub oracle: Arc<dyn Engine>,
}

impl Executor for HostExecutor {
    fn prepare(&self, call: Arc<RunCall>) -> Box<dyn RunInProgress> {
        Box::new(HostRun::new(self.engine.clone(), self.oracle.clone(), call))
    }
}
