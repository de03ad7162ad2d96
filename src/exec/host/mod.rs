//! Programs on the host: values in memory, NTTs and MSMs on an engine, everything else on the
//! current rayon pool.

mod run;

use std::sync::Arc;

use self::run::HostRun;
use super::{Executor, RunInProgress, call::RunCall, in_pieces::RunInPieces};
use crate::engine::{DeviceInfo, MsmNttEngine};

#[derive(Clone)]
pub struct HostExecutor {
    pub engine: Arc<dyn MsmNttEngine>,
    /// Makes each value again if the caller wants the full check.
    pub oracle: Arc<dyn MsmNttEngine>,
}

impl Executor for HostExecutor {
    fn description(&self) -> DeviceInfo {
        self.engine.description()
    }

    fn prepare(&self, call: Arc<RunCall>) -> Box<dyn RunInProgress> {
        match RunInPieces::new(&self.engine, &self.oracle, &call) {
            Some(run) => Box::new(run),
            None => Box::new(HostRun::new(self.engine.clone(), self.oracle.clone(), call)),
        }
    }
}
