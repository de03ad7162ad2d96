//! The engine of hosts with GPUs: GPUs check points and compute MSMs and NTTs. Small jobs, and NTTs
//! for which no GPU has memory, go to the CPU engine that this one contains.

mod msm;
mod ntt;
mod payload_copy;
mod plan_report;
mod point_check;
mod resident;
mod scalar_codec;
pub mod self_test;

use std::{
    mem,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use tracing::{debug, info, warn};

use self::{
    msm::GpuMsm,
    ntt::GpuNtt,
    payload_copy::PayloadCopier,
    point_check::{DevicePointChecker, GpuPointChecker},
    self_test::{EMULATED, ON_A_GPU, SelfTestSizes},
};
use super::{
    DeviceInfo, Engine, EngineDescription, ExecutedBy, GpuInfo, JobControl, MsmPlan, MsmRun,
    NttPlan, NttRows, PointChecker, cpu::CpuEngine,
};
pub use crate::device::{
    DeviceFault, DeviceSelection, FaultClass, GpuUnavailable, MajorMinor, OpenOptions,
    UnusableDevice, exit_without_handlers, open,
};
use crate::{
    curve::{Group, points::Bases},
    device::{Gpu, NvmlMonitor, OpenDevices, archs},
    error::Result,
    msm::SplitThresholds,
    ntt::LG_N_MAX,
};

const ENGINE: &str = "cuda";

/// Minimum sizes of jobs for GPUs; the CPU finishes smaller ones sooner.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GpuThresholds {
    /// Scalars of an MSM, all vectors together.
    pub msm_scalars: u64,
    /// Elements of an NTT, all rows together.
    pub ntt_elements: u64,
}

/// Most scalars in one piece of an MSM: 16 MiB, a third of a millisecond on the link, enough to
/// outweigh waking the threads that copy them.
const MSM_PIECE: usize = 1 << 19;

/// Elements in one piece of a batch of NTTs: 32 MiB, several groups, so that their copies overlap.
const NTT_PIECE: usize = 1 << 20;

/// Bytes pinned per call: several smaller calls may succeed when a large one fails.
const PINNED_AT_ONCE: u64 = 256 << 20;

/// GPUs and the CPU.
pub struct CudaEngine {
    cpu: CpuEngine,
    gpus: Vec<Gpu>,
    thresholds: GpuThresholds,
    msms: Vec<GpuMsm>,
    transformers: Vec<GpuNtt>,
    next: AtomicUsize,
    checker: GpuPointChecker,
    monitor: NvmlMonitor,
    /// Self-test outcomes, one per GPU.
    self_tests: Vec<String>,
    /// MSM plans, one list per GPU.
    plans: Vec<Vec<MsmPlan>>,
    left_out: Vec<UnusableDevice>,
    /// Pinned host memory that nothing uses yet.
    pinned: Mutex<Vec<&'static mut [u8]>>,
}

/// The loaded and tested code of one GPU.
struct GpuWorkers {
    computer: GpuMsm,
    transformer: GpuNtt,
    checker: DevicePointChecker,
    self_test: String,
}

impl GpuWorkers {
    fn load(
        gpu: &Gpu,
        copier: &PayloadCopier,
        cuts: SplitThresholds,
        sizes: Option<SelfTestSizes>,
    ) -> Result<Self, GpuUnavailable> {
        let computer = GpuMsm::load(gpu, copier.clone(), cuts)?;
        let transformer = GpuNtt::load(gpu, &computer, copier.clone())?;
        let checker = DevicePointChecker::load(gpu)?;
        let emulated = gpu.context().driver().is_emulated();
        let sizes = sizes.unwrap_or(if emulated { EMULATED } else { ON_A_GPU });
        let tested = self_test::run(gpu, &sizes, &computer, &transformer, &checker)?;
        let self_test = format!("{} (arithmetic), {tested}", gpu.self_test());
        Ok(Self { computer, transformer, checker, self_test })
    }
}

impl CudaEngine {
    /// Loads the kernels on every opened GPU and tests them. A GPU that cannot load them or
    /// computes wrong results is left out.
    ///
    /// Errors: `AllLeftOut` if no GPU can be used.
    pub fn new(
        cpu: CpuEngine,
        opened: OpenDevices,
        least: GpuThresholds,
    ) -> Result<Self, GpuUnavailable> {
        Self::with_thresholds(cpu, opened, least, SplitThresholds::default())
    }

    /// Like [`CudaEngine::new`], with other thresholds for splitting MSMs into passes.
    pub fn with_thresholds(
        cpu: CpuEngine,
        opened: OpenDevices,
        least: GpuThresholds,
        cuts: SplitThresholds,
    ) -> Result<Self, GpuUnavailable> {
        Self::load(cpu, opened, least, cuts, None)
    }

    /// Like [`CudaEngine::new`], with a self-test of other sizes.
    pub fn with_self_test(
        cpu: CpuEngine,
        opened: OpenDevices,
        least: GpuThresholds,
        sizes: SelfTestSizes,
    ) -> Result<Self, GpuUnavailable> {
        Self::load(cpu, opened, least, SplitThresholds::default(), Some(sizes))
    }

    fn load(
        cpu: CpuEngine,
        opened: OpenDevices,
        least: GpuThresholds,
        cuts: SplitThresholds,
        sizes: Option<SelfTestSizes>,
    ) -> Result<Self, GpuUnavailable> {
        let OpenDevices { gpus: all, unusable: mut left_out } = opened;
        let copier = PayloadCopier::new(cpu.pool().clone());
        let (mut gpus, mut served) = (Vec::new(), Vec::new());
        for gpu in all {
            match GpuWorkers::load(&gpu, &copier, cuts, sizes) {
                Ok(loaded) => {
                    gpus.push(gpu);
                    served.push(loaded);
                }
                Err(reason) => {
                    left_out.push(UnusableDevice { index: gpu.identity().index, reason })
                }
            }
        }
        if gpus.is_empty() {
            return Err(GpuUnavailable::AllLeftOut(left_out));
        }
        let plans = gpus.iter().map(plan_report::msm_plans).collect();
        let (mut computers, mut transformers) = (Vec::new(), Vec::new());
        let (mut checkers, mut self_tests) = (Vec::new(), Vec::new());
        for GpuWorkers { computer, transformer, checker, self_test } in served {
            computers.push(computer);
            transformers.push(transformer);
            checkers.push(checker);
            self_tests.push(self_test);
        }
        let (checker, turn) = (GpuPointChecker::new(checkers), AtomicUsize::new(0));
        let monitor = NvmlMonitor::open();
        Ok(Self {
            cpu,
            gpus,
            thresholds: least,
            msms: computers,
            transformers,
            next: turn,
            checker,
            monitor,
            self_tests,
            plans,
            left_out,
            pinned: Mutex::default(),
        })
    }

    /// Number of GPUs in use.
    pub fn gpu_count(&self) -> usize {
        self.gpus.len()
    }

    /// GPUs that were requested and cannot be used.
    pub fn left_out(&self) -> &[UnusableDevice] {
        &self.left_out
    }

    /// How many GPUs are used and left out, in a sentence for the operator.
    pub fn summary(&self) -> String {
        let used = match self.gpu_count() {
            1 => "1 GPU passed its self-test".to_owned(),
            n => format!("{n} GPUs passed their self-test"),
        };
        match self.left_out.len() {
            0 => used,
            n => format!("{used}; {n} cannot be used"),
        }
    }

    /// Pins up to `bytes` bytes of host memory for large payloads, as much as the driver grants.
    /// Devices copy from it without a CPU thread's help.
    pub fn pin(&self, bytes: u64) {
        let begun = Instant::now();
        let mut pinned = 0;
        while let left @ 1.. = bytes - pinned {
            match self.gpus[0].context().pin(left.min(PINNED_AT_ONCE) as usize) {
                Ok(memory) => {
                    pinned += memory.len() as u64;
                    self.pinned().push(memory);
                }
                Err(fault) => {
                    warn!(%fault, "cannot pin more memory");
                    break;
                }
            }
        }
        let ms = begun.elapsed().as_millis() as u64;
        info!(bytes = pinned, ms, "pinned memory for payloads");
    }

    fn pinned(&self) -> MutexGuard<'_, Vec<&'static mut [u8]>> {
        self.pinned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a GPU holds the object that `bases` are part of.
    pub fn has_resident(&self, bases: &Bases) -> bool {
        self.msms.iter().any(|computer| computer.has_resident(bases))
    }

    /// Index of the next GPU, round-robin.
    fn next_gpu(&self) -> usize {
        self.next.fetch_add(1, Ordering::Relaxed) % self.gpus.len()
    }

    fn info(&self, at: usize) -> DeviceInfo {
        let (gpu, plans) = (&self.gpus[at], &self.plans[at]);
        let (identity, driver) = (gpu.identity(), gpu.context().driver());
        let sensors = self.monitor.sensors(identity);
        DeviceInfo {
            name: identity.name.clone(),
            kind: "cuda",
            units: identity.limits.multiprocessors,
            memory_bytes: identity.memory_bytes,
            gpu: Some(GpuInfo {
                index: identity.index,
                capability: identity.capability.to_string(),
                driver: self.monitor.driver_version(),
                cuda: driver.version().to_string(),
                emulated: driver.is_emulated(),
                kernel_archs: archs().iter().map(|arch| (*arch).to_owned()).collect(),
                self_test: self.self_tests[at].clone(),
                arena_bytes: gpu.arena().bytes(),
                arena_free_bytes: gpu.arena().free_bytes(),
                clock_mhz: sensors.clock_mhz(),
                clock_max_mhz: sensors.clock_max_mhz(),
                memory_clock_mhz: sensors.memory_clock_mhz(),
                temperature_c: sensors.temperature_c(),
                power_mw: sensors.power_mw(),
                ecc: sensors.is_ecc_enabled(),
                ecc_uncorrected: sensors.ecc_uncorrected(),
                msm_plans: plans.clone(),
            }),
        }
    }
}

impl Engine for CudaEngine {
    fn description(&self) -> EngineDescription {
        let names: Vec<_> = self.gpus.iter().map(|gpu| gpu.identity().name.as_str()).collect();
        EngineDescription {
            name: ENGINE,
            device: names.join(", "),
            units: self.gpus.iter().map(|gpu| gpu.identity().limits.multiprocessors).sum(),
            memory_bytes: self.gpus.iter().map(|gpu| gpu.identity().memory_bytes).sum(),
        }
    }

    fn msm(&self, bases: Bases, batch: usize) -> Result<Box<dyn MsmRun>> {
        let scalars = (bases.len() as u64).saturating_mul(batch as u64);
        if scalars == 0 || scalars < self.thresholds.msm_scalars {
            return self.cpu.msm(bases, batch);
        }
        // The GPU that holds the bases, else the next one.
        let computer = self.msms.iter().find(|computer| computer.has_resident(&bases));
        Ok(computer.unwrap_or_else(|| &self.msms[self.next_gpu()]).run(bases, batch))
    }

    fn msm_piece_len(&self, _: Group, n: usize) -> usize {
        n.min(MSM_PIECE)
    }

    fn ntt(&self, plan: &NttPlan, rows: &NttRows<'_>, control: &JobControl) -> Result<ExecutedBy> {
        let large = plan.lg_n <= LG_N_MAX
            && (rows.count as u64) << plan.lg_n >= self.thresholds.ntt_elements;
        if large {
            let (before, from) = self.transformers.split_at(self.next_gpu());
            for transformer in from.iter().chain(before) {
                if let Some(executor) = transformer.run(plan, rows, control)? {
                    return Ok(executor);
                }
            }
            debug!(lg_n = plan.lg_n, rows = rows.count, "no GPU has memory for the NTT");
        }
        self.cpu.ntt(plan, rows, control)
    }

    fn ntt_group_rows(&self, plan: &NttPlan) -> usize {
        NTT_PIECE.checked_shr(plan.lg_n).unwrap_or(0).max(1)
    }

    fn msm_scratch_bytes(&self, group: Group, n: usize) -> u64 {
        self.cpu.msm_scratch_bytes(group, n)
    }

    fn ntt_scratch_bytes(&self, plan: &NttPlan) -> u64 {
        // A GPU uses its pinned memory, but the CPU takes over if no GPU has memory.
        self.cpu.ntt_scratch_bytes(plan)
    }

    fn take_pinned_memory(&self) -> Vec<&'static mut [u8]> {
        mem::take(&mut self.pinned())
    }

    fn devices(&self) -> Vec<DeviceInfo> {
        let mut devices = self.cpu.devices();
        devices.extend((0..self.gpus.len()).map(|at| self.info(at)));
        devices
    }

    fn point_checker(&self) -> Option<&dyn PointChecker> {
        Some(&self.checker)
    }
}
