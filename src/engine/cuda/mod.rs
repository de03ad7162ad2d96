//! The engine of hosts with GPUs: GPUs check points and compute MSMs and NTTs. Small jobs, and NTTs
//! for which no GPU has memory, go to the CPU engine that this one contains.

mod model;
mod msm;
mod ntt;
mod payload_copy;
mod point_check;
mod policy;
mod resident;
mod scalar_codec;
pub mod self_test;
mod serving_gpu;
mod vectors;

use std::{
    any::Any,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tracing::{debug, warn};

use self::{payload_copy::PayloadCopier, policy::ENGINE, serving_gpu::ServingGpu};
use super::{
    DeviceInfo, EngineWork, ExecutedBy, JobControl, MsmNttEngine, MsmRun, NttPlan, NttRows,
    PointChecker, cpu::CpuEngine,
};
use crate::{
    curve::{
        Group,
        points::{BadElement, Bases, PointEncoding, PointsMut},
    },
    device::{NvmlMonitor, OpenDevices},
    error::Result,
    ntt::LG_N_MAX,
    region::SharedMemory,
};

pub use self::policy::GpuPolicy;
pub(crate) use self::vectors::{GpuVector, GpuVectors, RefusedElement, elapsed};
pub use crate::device::{
    DeviceFault, DevicePolicy, DeviceSelection, FaultClass, GpuUnavailable, MajorMinor,
    OpenOptions, UnusableDevice, exit_without_handlers, open,
};

/// Most scalars in one piece of an MSM: long enough on the link to outweigh waking the threads that
/// copy them (`benches/experiments/host-device.md`).
const MSM_PIECE: usize = 1 << 19;

/// Elements in one piece of a batch of NTTs: 32 MiB, several groups, so that their copies overlap.
const NTT_PIECE: usize = 1 << 20;

/// GPUs and the CPU.
pub struct CudaEngine {
    cpu: CpuEngine,
    gpus: Vec<ServingGpu>,
    policy: Arc<GpuPolicy>,
    /// Jobs and point checks are dealt out round-robin.
    next_job: AtomicUsize,
    next_check: AtomicUsize,
    monitor: NvmlMonitor,
    left_out: Vec<UnusableDevice>,
}

impl CudaEngine {
    /// Loads the kernels on every opened GPU and tests them. A GPU that cannot load them or
    /// computes wrong results is left out.
    ///
    /// Errors: `AllLeftOut` if no GPU can be used.
    pub fn new(
        cpu: CpuEngine,
        opened: OpenDevices,
        policy: GpuPolicy,
    ) -> Result<Self, GpuUnavailable> {
        let policy = Arc::new(policy);
        let OpenDevices { gpus: opened, unusable: mut left_out } = opened;
        let copier = PayloadCopier(cpu.threads().clone());
        let mut gpus = Vec::new();
        for gpu in opened {
            let index = gpu.identity().index;
            match ServingGpu::load(gpu, &copier, &policy) {
                Ok(gpu) => gpus.push(gpu),
                Err(reason) => left_out.push(UnusableDevice { index, reason }),
            }
        }
        if gpus.is_empty() {
            return Err(GpuUnavailable::AllLeftOut(left_out));
        }
        let (next_job, next_check) = Default::default();
        let monitor = NvmlMonitor::open();
        Ok(Self { cpu, gpus, policy, next_job, next_check, monitor, left_out })
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

    /// Lets all GPUs access the first `bytes` bytes of shared memory directly until the value is
    /// dropped, or as many as the driver grants; `None` if it grants no byte.
    pub fn pin_memory(
        &self,
        memory: &Arc<SharedMemory>,
        bytes: usize,
    ) -> Option<Box<dyn Any + Send + Sync>> {
        let pinned = self.gpus.first()?.gpu.context().pin_shared(memory.clone(), bytes);
        // Without it, the copies are staged.
        let pinned = pinned.inspect_err(|fault| warn!(%fault, "cannot pin memory"));
        Some(Box::new(pinned.ok()?))
    }

    /// The CPU and the GPUs, with current readings. May take milliseconds.
    pub fn devices(&self) -> Vec<DeviceInfo> {
        let cpu = [self.cpu.description()];
        cpu.into_iter().chain(self.gpus.iter().map(|gpu| gpu.info(&self.monitor))).collect()
    }

    /// The modelled time of work on operands in a GPU's memory. The first GPU stands for all.
    pub fn modelled_time_on_device(&self, work: &EngineWork) -> Duration {
        model::on_device(&self.gpus[0].gpu, work)
    }

    /// The most bytes that a job can lease on a GPU.
    pub fn device_bytes(&self) -> u64 {
        self.gpus.iter().map(|gpu| gpu.gpu.arena().bytes()).max().unwrap_or(0)
    }

    /// Whether a GPU holds the object that `bases` are part of, for tests of eviction.
    #[cfg(feature = "internals")]
    pub fn has_resident(&self, bases: &Bases) -> bool {
        self.gpus.iter().any(|gpu| gpu.msm.resident().contains(bases))
    }

    /// The index of the GPU that holds the first of `bases` that is resident, else of the next one.
    fn gpu_for(&self, bases: &[Bases]) -> usize {
        let holds = |bases| self.gpus.iter().position(|gpu| gpu.msm.resident().contains(bases));
        bases.iter().find_map(holds).unwrap_or_else(|| self.next_gpu(&self.next_job))
    }

    fn next_gpu(&self, next: &AtomicUsize) -> usize {
        next.fetch_add(1, Ordering::Relaxed) % self.gpus.len()
    }
}

impl MsmNttEngine for CudaEngine {
    fn description(&self) -> DeviceInfo {
        let identities: Vec<_> = self.gpus.iter().map(|gpu| gpu.gpu.identity()).collect();
        let names: Vec<_> = identities.iter().map(|identity| identity.name.as_str()).collect();
        DeviceInfo {
            name: names.join(", "),
            kind: ENGINE,
            units: identities.iter().map(|identity| identity.limits.multiprocessors).sum(),
            memory_bytes: identities.iter().map(|identity| identity.memory_bytes).sum(),
            gpu: None,
        }
    }

    fn msm(&self, bases: Bases, batch: usize) -> Result<Box<dyn MsmRun>> {
        let scalars = (bases.len() as u64).saturating_mul(batch as u64);
        if scalars == 0 || scalars < self.policy.msm_scalars_min {
            return self.cpu.msm(bases, batch);
        }
        let gpu = &self.gpus[self.gpu_for(std::slice::from_ref(&bases))];
        Ok(gpu.msm.run(bases, batch, self.policy.split))
    }

    fn msm_piece_len(&self, _: Group, n: usize) -> usize {
        n.min(MSM_PIECE)
    }

    fn ntt(&self, plan: &NttPlan, rows: &NttRows<'_>, control: &JobControl) -> Result<ExecutedBy> {
        let is_large = plan.lg_n <= LG_N_MAX
            && (rows.count as u64) << plan.lg_n >= self.policy.ntt_elements_min;
        if is_large {
            let planned = ntt::group_rows(plan.lg_n, rows.count);
            let (last, first) = self.gpus.split_at(self.next_gpu(&self.next_job));
            for gpu in first.iter().chain(last) {
                if let Some(executor) = gpu.ntt.run(planned, plan, rows, control)? {
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

    fn models_copies(&self) -> bool {
        true
    }

    fn modelled_time(&self, work: &EngineWork) -> Duration {
        let on_device = |elements| self.modelled_time_on_device(work) + model::transfer(elements);
        match *work {
            EngineWork::Msm { n, vectors, .. } => {
                let scalars = n.saturating_mul(vectors.into());
                match scalars >= self.policy.msm_scalars_min {
                    true => on_device(scalars),
                    false => self.cpu.modelled_time(work),
                }
            }
            EngineWork::Ntt { lg_n, rows } => {
                let elements = u64::from(rows) << lg_n;
                let fits = lg_n <= LG_N_MAX && 32 << lg_n <= self.device_bytes();
                match fits && elements >= self.policy.ntt_elements_min {
                    // Copied in both directions.
                    true => on_device(elements) + model::transfer(elements),
                    false => self.cpu.modelled_time(work),
                }
            }
            // Programs whose values are in host memory compute these there.
            EngineWork::Vectors(_) | EngineWork::Transfer { .. } => self.cpu.modelled_time(work),
        }
    }
}

impl PointChecker for CudaEngine {
    fn piece_len(&self, _: Group, encoding: PointEncoding, count: usize) -> Option<usize> {
        point_check::piece_len(encoding, count)
    }

    fn check(
        &self,
        encoding: PointEncoding,
        bytes: &[u8],
        out: PointsMut<'_>,
    ) -> Result<Result<(), BadElement>> {
        let checker = &self.gpus[self.next_gpu(&self.next_check)].points;
        match out {
            PointsMut::G1(out) => checker.check(encoding, bytes, out),
            PointsMut::G2(out) => checker.check(encoding, bytes, out),
        }
    }
}
