//! Programs on the host: values in memory, NTTs and MSMs on an engine, everything else on the
//! current rayon pool.
//!
//! A program's steps run on threads of no rayon pool: a rayon thread that waits for another pool,
//! as a call of an engine does, meanwhile runs other tasks of its pool. Such a task could be a step
//! of another program that waits for the GPU that the first program holds: a deadlock.

mod run;

use std::sync::Arc;

use self::run::HostRun;
use super::{Executor, RunInProgress, call::RunCall, in_pieces::RunInPieces};
use crate::engines::{DeviceInfo, MsmNttEngine};

#[derive(Clone)]
pub struct HostExecutor {
    pub engine: Arc<dyn MsmNttEngine>,
    /// See [`Executor::oracle`].
    pub oracle: Option<Arc<dyn MsmNttEngine>>,
}

impl Executor for HostExecutor {
    fn description(&self) -> DeviceInfo {
        self.engine.description()
    }

    fn oracle(&self) -> Option<Arc<dyn MsmNttEngine>> {
        self.oracle.clone()
    }

    fn prepare(&self, call: Arc<RunCall>) -> Box<dyn RunInProgress> {
        match RunInPieces::new(&self.engine, &call) {
            Some(run) => Box::new(run),
            None => Box::new(HostRun::new(self.engine.clone(), call)),
        }
    }
}
