//! The GPUs that a call may be divided among.

use std::sync::{Arc, atomic::AtomicU32};

use crate::{
    engine::cuda::CudaModel,
    exec::{HostExecutor, ProgramPlan, RunCall},
    worker::{pool::WorkerPool, run::WorkerRun, settings::SpreadPolicy},
};

/// A GPU is idle if its backlog is shorter than the call by this factor.
const SHORT_BACKLOG: u32 = 10;

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

    /// Whether that many GPUs have almost nothing to do. If they are busy, a divided call would
    /// take more of their time from other calls than it gains.
    pub(super) fn are_idle(&self, gpus: u64, alone: &ProgramPlan) -> bool {
        let short = alone.modelled.total / SHORT_BACKLOG;
        let live = self.pool.live();
        live.iter().filter(|worker| worker.backlog() <= short).count() as u64 >= gpus
    }

    /// The run of a part. `losses` counts the workers that are lost with the call.
    pub(super) fn part(
        &self,
        call: Arc<RunCall>,
        plan: ProgramPlan,
        losses: &Arc<AtomicU32>,
    ) -> WorkerRun {
        let mut run = WorkerRun::new(self.pool.clone(), self.host.clone(), call, plan);
        run.share_losses(losses);
        run
    }
}
