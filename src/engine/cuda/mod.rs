//! The engine of hosts with GPUs: they check points that come in, do MSMs and NTTs. What is small,
//! and transforms that find no room on a GPU, are the CPU engine's, which this one holds.

mod copy;
mod elements;
mod msm;
mod ntt;
mod plans;
mod points;
mod resident;
pub mod self_test;

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Instant,
};

use tracing::{debug, info, warn};

use self::{
    copy::Copier,
    msm::Computer,
    ntt::Transformer,
    points::{Checker, DeviceChecker},
    self_test::{EMULATED, ON_A_GPU, SelfTestSizes},
};
use super::{
    Control, Description, DeviceInfo, Engine, Executor, GpuInfo, MsmPlan, MsmRun, NttPlan,
    PointChecker, Rows, cpu::CpuEngine,
};
use crate::{
    buffer::lend,
    curve::{Group, points::Bases},
    device::{Gpu, LeftOut, Monitor, Opened, Unusable, archs},
    error::Result,
    msm::Cuts,
    ntt::LG_N_MAX,
};

const ENGINE: &str = "cuda";

/// What the GPUs leave to the CPU: smaller jobs, which it is sooner done with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Least {
    /// Scalars of an MSM, of all its vectors together.
    pub msm_scalars: u64,
    /// Elements of an NTT, of all its rows together.
    pub ntt_elements: u64,
}

/// Scalars of one piece of an MSM at most: 16 MiB, a third of a millisecond on the link, and enough
/// that waking the threads that copy them does not count.
const MSM_PIECE: usize = 1 << 19;

/// Elements of one piece of a batch of NTTs: 32 MiB, several groups that go and come at a time.
const NTT_PIECE: usize = 1 << 20;

/// Bytes that are pinned by one call: what is refused as one piece may be there in several.
const PINNED_AT_ONCE: u64 = 256 << 20;

/// GPUs beside the CPU.
pub struct CudaEngine {
    cpu: CpuEngine,
    gpus: Vec<Gpu>,
    least: Least,
    computers: Vec<Computer>,
    transformers: Vec<Transformer>,
    turn: AtomicUsize,
    checker: Checker,
    monitor: Monitor,
    /// What each GPU's self-tests found.
    self_tests: Vec<String>,
    /// How each of the GPUs does MSMs.
    plans: Vec<Vec<MsmPlan>>,
    left_out: Vec<LeftOut>,
}

/// What one GPU serves, loaded and tested.
struct Served {
    computer: Computer,
    transformer: Transformer,
    checker: DeviceChecker,
    self_test: String,
}

impl Served {
    fn load(
        gpu: &Gpu,
        copier: &Copier,
        cuts: Cuts,
        sizes: Option<SelfTestSizes>,
    ) -> Result<Self, Unusable> {
        let computer = Computer::load(gpu, copier.clone(), cuts)?;
        let transformer = Transformer::load(gpu, &computer, copier.clone())?;
        let checker = DeviceChecker::load(gpu)?;
        let emulated = gpu.context().driver().is_emulated();
        let sizes = sizes.unwrap_or(if emulated { EMULATED } else { ON_A_GPU });
        let tested = self_test::run(gpu, &sizes, &computer, &transformer, &checker)?;
        let self_test = format!("{}, {tested}", gpu.self_test());
        Ok(Self { computer, transformer, checker, self_test })
    }
}

impl CudaEngine {
    /// Loads the kernels on every opened GPU, and tests what they serve. A GPU on which they cannot
    /// be loaded or compute wrong results is left out.
    ///
    /// Errors: the first GPU's reason if none is left.
    pub fn new(cpu: CpuEngine, opened: Opened, least: Least) -> Result<Self, Unusable> {
        Self::with_cuts(cpu, opened, least, Cuts::default())
    }

    /// Like [`Self::new`], with other sizes from which on MSMs are cut into passes.
    pub fn with_cuts(
        cpu: CpuEngine,
        opened: Opened,
        least: Least,
        cuts: Cuts,
    ) -> Result<Self, Unusable> {
        Self::load(cpu, opened, least, cuts, None)
    }

    /// Like [`Self::new`], with a self-test of other sizes.
    pub fn with_self_test(
        cpu: CpuEngine,
        opened: Opened,
        least: Least,
        sizes: SelfTestSizes,
    ) -> Result<Self, Unusable> {
        Self::load(cpu, opened, least, Cuts::default(), Some(sizes))
    }

    fn load(
        cpu: CpuEngine,
        opened: Opened,
        least: Least,
        cuts: Cuts,
        sizes: Option<SelfTestSizes>,
    ) -> Result<Self, Unusable> {
        let Opened { gpus: all, mut left_out } = opened;
        let copier = Copier::new(cpu.pool().clone());
        let (mut gpus, mut served) = (Vec::new(), Vec::new());
        for gpu in all {
            match Served::load(&gpu, &copier, cuts, sizes) {
                Ok(loaded) => {
                    gpus.push(gpu);
                    served.push(loaded);
                }
                Err(reason) => left_out.push(LeftOut { index: gpu.identity().index, reason }),
            }
        }
        if let (true, Some(first)) = (gpus.is_empty(), left_out.first()) {
            return Err(first.reason.clone());
        }
        let plans = gpus.iter().map(plans::of).collect();
        let (mut computers, mut transformers) = (Vec::new(), Vec::new());
        let (mut checkers, mut self_tests) = (Vec::new(), Vec::new());
        for Served { computer, transformer, checker, self_test } in served {
            computers.push(computer);
            transformers.push(transformer);
            checkers.push(checker);
            self_tests.push(self_test);
        }
        let (checker, turn) = (Checker::new(checkers), AtomicUsize::new(0));
        let monitor = Monitor::open();
        Ok(Self {
            cpu,
            gpus,
            least,
            computers,
            transformers,
            turn,
            checker,
            monitor,
            self_tests,
            plans,
            left_out,
        })
    }

    /// GPUs that are used.
    pub fn gpus(&self) -> usize {
        self.gpus.len()
    }

    /// GPUs that were wanted and cannot be used.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// Pins `bytes` bytes of host memory, or as many as there are, for large payloads to lie in.
    /// From there, devices copy without a thread's help.
    pub fn pin(&self, bytes: u64) {
        let begun = Instant::now();
        let mut pinned = 0;
        while let left @ 1.. = bytes - pinned {
            match self.gpus[0].context().pin(left.min(PINNED_AT_ONCE) as usize) {
                Ok(memory) => {
                    pinned += memory.len() as u64;
                    lend(memory);
                }
                Err(fault) => {
                    warn!(%fault, "no more memory can be pinned");
                    break;
                }
            }
        }
        let ms = begun.elapsed().as_millis() as u64;
        info!(bytes = pinned, ms, "pinned memory for payloads");
    }

    /// Whether a GPU holds the object that `bases` are a range of.
    pub fn holds(&self, bases: &Bases) -> bool {
        self.computers.iter().any(|computer| computer.has(bases))
    }

    /// Whose turn it is.
    fn turn(&self) -> usize {
        self.turn.fetch_add(1, Ordering::Relaxed) % self.gpus.len()
    }

    fn info(&self, at: usize) -> DeviceInfo {
        let (gpu, plans) = (&self.gpus[at], &self.plans[at]);
        let (identity, driver) = (gpu.identity(), gpu.context().driver());
        let facts = self.monitor.facts(identity);
        DeviceInfo {
            name: identity.name.clone(),
            kind: "cuda",
            units: identity.limits.multiprocessors,
            memory_bytes: identity.memory_bytes,
            gpu: Some(GpuInfo {
                index: identity.index,
                capability: identity.capability,
                driver: self.monitor.driver_version(),
                cuda: driver.version(),
                emulated: driver.is_emulated(),
                kernel_archs: archs().iter().map(|arch| (*arch).to_owned()).collect(),
                self_test: self.self_tests[at].clone(),
                arena_bytes: gpu.arena().bytes(),
                arena_free_bytes: gpu.arena().free_bytes(),
                clock_mhz: facts.clock_mhz,
                clock_max_mhz: facts.clock_max_mhz,
                memory_clock_mhz: facts.memory_clock_mhz,
                temperature_c: facts.temperature_c,
                power_mw: facts.power_mw,
                ecc: facts.ecc,
                ecc_uncorrected: facts.ecc_uncorrected,
                msm_plans: plans.clone(),
            }),
        }
    }
}

impl Engine for CudaEngine {
    fn description(&self) -> Description {
        let names: Vec<_> = self.gpus.iter().map(|gpu| gpu.identity().name.as_str()).collect();
        Description {
            name: ENGINE,
            device: names.join(", "),
            units: self.gpus.iter().map(|gpu| gpu.identity().limits.multiprocessors).sum(),
            memory_bytes: self.gpus.iter().map(|gpu| gpu.identity().memory_bytes).sum(),
        }
    }

    fn msm(&self, bases: Bases, batch: usize) -> Result<Box<dyn MsmRun>> {
        let scalars = (bases.len() as u64).saturating_mul(batch as u64);
        if scalars == 0 || scalars < self.least.msm_scalars {
            return self.cpu.msm(bases, batch);
        }
        // Where the bases are already, else the devices take turns.
        let computer = self.computers.iter().find(|computer| computer.has(&bases));
        Ok(computer.unwrap_or_else(|| &self.computers[self.turn()]).run(bases, batch))
    }

    fn msm_piece(&self, _: Group, n: usize) -> usize {
        n.min(MSM_PIECE)
    }

    fn ntt(&self, plan: &NttPlan, rows: &Rows<'_>, control: &Control) -> Result<Executor> {
        let large =
            plan.lg_n <= LG_N_MAX && (rows.count as u64) << plan.lg_n >= self.least.ntt_elements;
        if large {
            let (before, from) = self.transformers.split_at(self.turn());
            for transformer in from.iter().chain(before) {
                if let Some(executor) = transformer.run(plan, rows, control)? {
                    return Ok(executor);
                }
            }
            debug!(lg_n = plan.lg_n, rows = rows.count, "no GPU has room for the NTT");
        }
        self.cpu.ntt(plan, rows, control)
    }

    fn ntt_group(&self, plan: &NttPlan) -> usize {
        NTT_PIECE.checked_shr(plan.lg_n).unwrap_or(0).max(1)
    }

    fn msm_scratch_bytes(&self, group: Group, n: usize) -> u64 {
        self.cpu.msm_scratch_bytes(group, n)
    }

    fn ntt_scratch_bytes(&self, plan: &NttPlan) -> u64 {
        // A GPU takes none, its pinned memory is there; but it may have no room.
        self.cpu.ntt_scratch_bytes(plan)
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
