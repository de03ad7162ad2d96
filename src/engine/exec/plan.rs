//! What a run takes, computed from its call and the models of the engines before it begins.

use std::time::Duration;

use super::{
    ModelledTime,
    call::{OnlyStep, RunCall},
};
use crate::{
    engines::{EngineModel, EngineWork, cuda::CudaModel},
    ops::Operation,
    program::ValueId,
};

/// The memory and time that a run needs.
#[derive(Debug, Clone)]
pub struct ProgramPlan {
    /// The most bytes of the host's memory that values and one step's work take at once.
    pub memory_bytes: u64,
    /// The part of `memory_bytes` that values take.
    pub value_bytes: u64,
    /// The first of the steps during which values and the step's work take most memory.
    pub largest: ValueId,
    /// The modelled time of all steps, their checks, and copies from and to the caller, if scalars
    /// are uniform and stored bases are on the device. Changes if the run moves to the host.
    pub modelled: ModelledTime,
    /// The number of scalar vectors, if all of the run is one MSM of an input.
    pub msm_vectors: Option<usize>,
    pub writes: OutputWrites,
}

/// When a run writes to an output that lies in the same memory as an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputWrites {
    /// After the step that makes the output; earlier steps have read what they need.
    AfterStep,
    /// Each row after the same row of the input was read.
    RowByRow,
    /// At any time.
    AnyTime,
}

impl ProgramPlan {
    /// The plan of a call of one step that is computed piece by piece; `None` for other calls.
    pub fn in_pieces(call: &RunCall, engine: &dyn EngineModel) -> Option<Self> {
        let OnlyStep { id, input } = call.only_step()?;
        let memory_bytes = call.step(id).pieces_bytes(input, call.is_checked, engine)?;
        let modelled = call.modelled_time(|work| match work {
            EngineWork::Transfer { .. } if engine.models_copies() => Duration::ZERO,
            work => engine.modelled_time(work),
        });
        // A batch reports two steps.
        let is_msm = matches!(call.program.steps(), [Operation::Input(_), Operation::Msm(_)]);
        let msm_vectors = is_msm.then_some(input.rows() as usize);
        let writes = OutputWrites::RowByRow;
        Some(Self { memory_bytes, value_bytes: 0, largest: id, modelled, msm_vectors, writes })
    }

    /// The plan of a call whose values are in the host's memory.
    pub fn on_host(call: &RunCall, engine: &dyn EngineModel) -> Self {
        let value_bytes = call.liveness.peak_bytes();
        let mut scratch_bytes = 0;
        let mut largest = None;
        for id in call.ids_to_run() {
            let scratch = call.step(id);
            let scratch = scratch.scratch_bytes(&call.input_types(id), engine, call.is_checked);
            scratch_bytes = scratch_bytes.max(scratch);
            let bytes = call.liveness.held_bytes(id).saturating_add(scratch);
            if largest.is_none_or(|(_, most)| bytes > most) {
                largest = Some((id, bytes));
            }
        }
        let memory_bytes = value_bytes.saturating_add(scratch_bytes);
        let largest = largest.map_or(ValueId(0), |(id, _)| id);
        let modelled = call.modelled_time(|work| engine.modelled_time(work));
        let writes = OutputWrites::AfterStep;
        Self { memory_bytes, value_bytes, largest, modelled, msm_vectors: None, writes }
    }

    /// Whether the CPU computes a call sooner than a GPU: a short computation with integers.
    pub fn suits_cpu(call: &RunCall, model: &CudaModel) -> bool {
        call.integer_limbs().is_some_and(|limbs| limbs < model.integer_limbs_min)
    }

    /// The plan of a call on a GPU. The time is that on the host if no GPU's memory can hold all
    /// values, and the memory always, since the host may take over.
    pub fn on_gpu(call: &RunCall, model: &CudaModel) -> Self {
        if let Some(plan) = Self::in_pieces(call, model) {
            return plan;
        }
        let mut plan = Self::on_host(call, model);
        // Outputs stay on the device until the end.
        let values = call.liveness.peak_bytes().saturating_add(call.output_bytes());
        let scratch =
            call.ids_to_run().map(|id| call.step(id).device_scratch_bytes(&call.input_types(id)));
        let bytes = values.saturating_add(scratch.max().unwrap_or(0));
        if bytes <= model.device_bytes() {
            plan.modelled = call.modelled_time(|work| model.time_on_device(work));
        }
        plan
    }
}
