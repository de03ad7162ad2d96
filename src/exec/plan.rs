//! What a run takes, computed from its call and the models of the engines before it begins.

use std::time::Duration;

use super::{ModelledTime, call::RunCall};
#[cfg(feature = "cuda")]
use crate::engine::cuda::CudaModel;
use crate::{
    engine::{EngineModel, EngineWork},
    ops::Operation,
    verify::Verification,
};

/// What a run takes.
#[derive(Debug, Clone)]
pub struct ProgramPlan {
    /// The most bytes of the host's memory that values and one step's work take at once.
    pub memory_bytes: u64,
    /// The part of `memory_bytes` that values take.
    pub value_bytes: u64,
    /// The modelled time of all steps, their checks, and copies from and to the caller, if scalars
    /// are uniform and stored bases are on the device. Changes if the run moves to the host.
    pub modelled: ModelledTime,
    /// The number of scalar vectors, if all of the run is one MSM of an input.
    pub msm_vectors: Option<usize>,
    /// Whether the run may write to an output before it has read all of its inputs.
    pub writes_early: bool,
}

/// The models of what computes on the host.
#[derive(Clone, Copy)]
pub struct HostModels<'a> {
    pub engine: &'a dyn EngineModel,
    /// Makes values again for full checks.
    pub oracle: &'a dyn EngineModel,
}

impl HostModels<'_> {
    /// The time of work, with that of the full check if the call asks for it.
    fn time(&self, call: &RunCall, work: &EngineWork, own: Duration) -> Duration {
        match call.verify {
            Verification::Full => own.saturating_add(self.oracle.modelled_time(work)),
            Verification::None | Verification::Probabilistic => own,
        }
    }
}

impl ProgramPlan {
    /// The plan of a call of one step that is computed piece by piece; `None` for other calls.
    pub fn in_pieces(call: &RunCall, models: HostModels<'_>) -> Option<Self> {
        let (id, input) = call.only_step()?;
        let memory_bytes =
            call.step(id).pieces_bytes(input, call.verify, models.engine, models.oracle)?;
        let modelled = call.modelled_time(|work| {
            let time = match work {
                EngineWork::Transfer { .. } if models.engine.models_copies() => Duration::ZERO,
                work => models.engine.modelled_time(work),
            };
            models.time(call, work, time)
        });
        // A batch reports two steps.
        let is_msm = matches!(call.program.steps(), [Operation::Input(_), Operation::Msm(_)]);
        let msm_vectors = is_msm.then_some(input.rows() as usize);
        Some(Self { memory_bytes, value_bytes: 0, modelled, msm_vectors, writes_early: true })
    }

    /// The plan of a call whose values are in the host's memory.
    pub fn on_host(call: &RunCall, models: HostModels<'_>) -> Self {
        let value_bytes = call.liveness.peak_bytes();
        let scratch = call.ids_to_run().map(|id| {
            let (step, types) = (call.step(id), call.input_types(id));
            let on = |model: &dyn EngineModel| step.scratch_bytes(&types, model, call.verify);
            match call.verify {
                Verification::Full => on(models.engine).max(on(models.oracle)),
                Verification::None | Verification::Probabilistic => on(models.engine),
            }
        });
        let memory_bytes = value_bytes.saturating_add(scratch.max().unwrap_or(0));
        let modelled =
            call.modelled_time(|work| models.time(call, work, models.engine.modelled_time(work)));
        Self { memory_bytes, value_bytes, modelled, msm_vectors: None, writes_early: false }
    }

    /// The plan of a call on a GPU. The time is that on the host if no GPU's memory can hold all
    /// values, and the memory always, since the host may take over.
    #[cfg(feature = "cuda")]
    pub fn on_gpu(call: &RunCall, model: &CudaModel, oracle: &dyn EngineModel) -> Self {
        let models = HostModels { engine: model, oracle };
        if let Some(plan) = Self::in_pieces(call, models) {
            return plan;
        }
        let mut plan = Self::on_host(call, models);
        // Outputs stay on the device until the end.
        let bytes = call.liveness.peak_bytes().saturating_add(call.output_bytes());
        if call.verify != Verification::Full && bytes <= model.device_bytes() {
            plan.modelled = call.modelled_time(|work| model.time_on_device(work));
        }
        plan
    }
}
