//! MSM plans for operators: how a GPU computes MSMs of some sizes.

use crate::{
    curve::Group,
    device::Gpu,
    engine::MsmPlan,
    msm::{BaseMemory, ResidentPlan, TableStage, tables::scratch_bytes},
};

/// log2 of the sizes reported.
const SIZES: [u32; 4] = [10, 16, 20, 24];

/// Plans for both groups over bases resident on `gpu`, assuming nothing else uses it.
pub fn msm_plans(gpu: &Gpu) -> Vec<MsmPlan> {
    let (all, limits) = (gpu.arena().bytes(), gpu.identity().limits);
    let of_size = |(group, lg_n): (Group, u32)| {
        let memory = BaseMemory {
            total: all,
            free: all,
            table_scratch: scratch_bytes(group, 1 << lg_n, &limits),
        };
        let stages = ResidentPlan::stages(group, 1 << lg_n, limits, memory);
        stages.into_iter().map(move |TableStage { from_use: uses, plan, bytes: table_bytes }| {
            let windows = plan.windows();
            let (window_bits, tables) = (windows.bits(), windows.tables());
            let plan = plan.to_string();
            MsmPlan { group, lg_n, uses, plan, window_bits, tables, table_bytes }
        })
    };
    let sizes = |group| SIZES.map(|lg_n| (group, lg_n));
    [Group::G1, Group::G2].into_iter().flat_map(sizes).flat_map(of_size).collect()
}
