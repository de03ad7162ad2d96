//! One GPU of the engine: its loaded and tested code, and its description.

use std::{sync::Arc, time::Instant};

use tracing::debug;

use super::{
    GpuFacts, GpuPolicy,
    bases_fit::BasesRoom,
    msm::GpuMsm,
    ntt::GpuNtt,
    payload_copy::PayloadCopier,
    point_check::DevicePointChecker,
    scalar_codec::ScalarCodec,
    self_test::{EMULATED, ON_A_GPU, SelfTestSizes},
};
use crate::{
    curve::{Group, points::Bases},
    device::{Gpu, GpuUnavailable, NvmlMonitor, archs},
    engines::{DeviceInfo, GpuInfo, MsmPlan},
    gf2_elimination::EliminationKernels,
    msm::{BaseMemory, ResidentPlan, TableStage, tables::scratch_bytes},
    ntt::{VectorKernels, table_bytes_max},
    ntt31::{LimbKernels, Ntt31Device, VectorKernels31},
};

/// Tables of transforms take at most this fraction of those for transforms over Fr, 1/8: an element
/// has an eighth of the bytes.
const TABLES_PART: u64 = 8;

pub struct ServingGpu {
    pub gpu: Gpu,
    pub msm: GpuMsm,
    pub ntt: GpuNtt,
    pub points: DevicePointChecker,
    pub vectors: VectorKernels,
    pub words: WordArithmetic,
    pub codec: ScalarCodec,
    pub gf2: EliminationKernels,
    pub copier: PayloadCopier,
    pub policy: Arc<GpuPolicy>,
    /// The outcome of the self-test, in a sentence.
    self_test: String,
    msm_plans: Vec<MsmPlan>,
}

impl ServingGpu {
    pub fn load(
        gpu: Gpu,
        copier: &PayloadCopier,
        policy: &Arc<GpuPolicy>,
    ) -> Result<Self, GpuUnavailable> {
        let begun = Instant::now();
        let msm = GpuMsm::load(&gpu, copier.clone(), policy.clone())?;
        let ntt = GpuNtt::load(&gpu, &msm, copier.clone(), policy.clone())?;
        let points = DevicePointChecker::load(&gpu)?;
        let vectors = VectorKernels::load(&gpu)?;
        let codec = ScalarCodec::load(&gpu)?;
        let words = WordArithmetic::load(&gpu)?;
        let gf2 = EliminationKernels::load(&gpu)?;
        let copier = copier.clone();
        let policy = policy.clone();
        let ms = begun.elapsed().as_millis() as u64;
        debug!(device = gpu.identity().index, ms, "kernels loaded");
        let self_test = format!("{} (arithmetic)", gpu.self_test());
        let msm_plans = msm_plans(&gpu);
        Ok(Self {
            gpu,
            msm,
            ntt,
            points,
            vectors,
            words,
            codec,
            gf2,
            copier,
            policy,
            self_test,
            msm_plans,
        })
    }

    /// The sizes of the self-test's jobs.
    pub fn self_test_sizes(&self) -> SelfTestSizes {
        let emulated = self.gpu.context().driver().is_emulated();
        self.policy.self_test.unwrap_or(if emulated { EMULATED } else { ON_A_GPU })
    }

    /// Adds the outcome of the self-test of its kernels.
    pub fn add_self_test(&mut self, outcome: &str) {
        self.self_test = format!("{}, {outcome}", self.self_test);
    }

    /// The room for these bases if nothing else uses the GPU and other bases that are pinned stay.
    pub fn bases_room(&self, bases: &Bases) -> BasesRoom {
        let pinned = self.msm.resident().bases().pinned_bytes_besides(bases);
        let arena = self.gpu.arena().bytes() - pinned;
        let limits = self.gpu.identity().limits;
        let room = BasesRoom::new(arena, limits, self.policy.split);
        match self.policy.bases_bytes_max {
            Some(bases_bytes_max) => BasesRoom { bases_bytes_max, ..room },
            None => room,
        }
    }

    pub fn facts(&self) -> GpuFacts {
        let identity = self.gpu.identity();
        GpuFacts {
            index: identity.index,
            name: identity.name.clone(),
            limits: identity.limits,
            memory_bytes: identity.memory_bytes,
            arena_bytes: self.gpu.arena().bytes(),
        }
    }

    pub fn info(&self, monitor: &NvmlMonitor) -> DeviceInfo {
        let identity = self.gpu.identity();
        let driver = self.gpu.context().driver();
        let sensors = monitor.sensors(identity);
        DeviceInfo {
            name: identity.name.clone(),
            kind: "cuda",
            units: identity.limits.multiprocessors,
            memory_bytes: identity.memory_bytes,
            gpu: Some(GpuInfo {
                index: identity.index,
                capability: identity.capability.to_string(),
                driver_version: monitor.driver_version(),
                cuda_version: driver.version().to_string(),
                emulated: driver.is_emulated(),
                kernel_archs: archs().iter().map(|arch| (*arch).to_owned()).collect(),
                self_test: self.self_test.clone(),
                arena_bytes: self.gpu.arena().bytes(),
                arena_free_bytes: self.gpu.arena().free_bytes(),
                clock_mhz: sensors.clock_mhz(),
                clock_max_mhz: sensors.clock_max_mhz(),
                memory_clock_mhz: sensors.memory_clock_mhz(),
                temperature_c: sensors.temperature_c(),
                power_mw: sensors.power_mw(),
                ecc: sensors.is_ecc_enabled(),
                ecc_uncorrected: sensors.ecc_uncorrected(),
                msm_plans: self.msm_plans.clone(),
            }),
        }
    }
}

/// log2 of the sizes of the plans reported.
const PLAN_SIZES: [u32; 4] = [10, 16, 20, 24];

/// Plans for both groups over bases resident on `gpu`, assuming nothing else uses it.
fn msm_plans(gpu: &Gpu) -> Vec<MsmPlan> {
    let all = gpu.arena().bytes();
    let limits = gpu.identity().limits;
    let of_size = |group: Group, lg_n: u32| {
        let memory = BaseMemory {
            total: all,
            free: all,
            table_scratch: scratch_bytes(group, 1 << lg_n, &limits),
        };
        let stages = ResidentPlan::stages(group, 1 << lg_n, limits, memory);
        stages.into_iter().map(move |TableStage { uses, plan, table_bytes }| {
            let windows = plan.windows();
            let (window_bits, tables) = (windows.bits(), windows.tables());
            let plan = plan.to_string();
            MsmPlan { group, lg_n, uses, plan, window_bits, tables, table_bytes }
        })
    };
    let of_group = |group| PLAN_SIZES.into_iter().flat_map(move |lg_n| of_size(group, lg_n));
    [Group::G1, Group::G2].into_iter().flat_map(of_group).collect()
}

/// The kernels and tables for vectors over 31-bit primes, and of integers.
pub struct WordArithmetic {
    pub(super) transforms: Ntt31Device,
    pub(super) vectors: VectorKernels31,
    pub(super) limbs: LimbKernels,
}

impl WordArithmetic {
    pub fn load(gpu: &Gpu) -> Result<Self, GpuUnavailable> {
        let table_bytes_max = table_bytes_max(gpu.arena().bytes()) / TABLES_PART;
        let transforms = Ntt31Device::load(gpu, table_bytes_max)?;
        Ok(Self {
            transforms,
            vectors: VectorKernels31::load(gpu)?,
            limbs: LimbKernels::load(gpu)?,
        })
    }
}
