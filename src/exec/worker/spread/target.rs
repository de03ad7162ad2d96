//! The GPUs that a call may be divided among.

use std::sync::Arc;

use crate::{
    engine::cuda::CudaModel,
    exec::{
        HostExecutor, ProgramPlan,
        call::RunCall,
        worker::{pool::WorkerPool, run::WorkerRun, settings::SpreadPolicy},
    },
};

/// Where a call may run.
pub struct SpreadTarget<'a> {
    pub pool: &'a Arc<WorkerPool>,
    pub model: &'a CudaModel,
    pub host: &'a HostExecutor,
    pub policy: SpreadPolicy,
}

impl SpreadTarget<'_> {
    pub(super) fn plan(&self, call: &RunCall) -> ProgramPlan {
        ProgramPlan::on_gpu(call, self.model)
    }

    /// Whether dividing a call pays. `alone` is its plan on one GPU, `longest` that of the longest
    /// part.
    pub(super) fn allows(&self, alone: &ProgramPlan, longest: &ProgramPlan, gpus: u64) -> bool {
        let [alone, longest] = [alone, longest].map(|plan| plan.modelled.total.as_secs_f64());
        longest * gpus as f64 <= alone * self.policy.gpu_time_max
    }

    pub(super) fn part(&self, call: Arc<RunCall>, plan: ProgramPlan) -> WorkerRun {
        WorkerRun::new(self.pool.clone(), self.host.clone(), call, plan)
    }
}
