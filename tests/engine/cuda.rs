//! The engine with GPUs: on the machine's GPU, else on the emulated driver.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use capstan::{
    curve::{Group, points::Bases},
    device::{self, DeviceFault, DevicePolicy, DeviceSelection, OpenOptions},
    engine::{
        DeviceInfo, EngineModel, EngineWork, ExecutedBy, JobControl, MsmNttEngine, MsmRun, NttPlan,
        NttRows,
        cpu::CpuEngine,
        cuda::{CudaEngine, GpuPolicy, self_test::SelfTestSizes},
    },
    error::Result,
    field::{Element31, Field31},
};

use crate::{
    SuiteSizes, all_sizes,
    emulated::{self, SEEDS},
    msm,
    repeat::has_all_cases,
};

/// An engine that sets the next seed of the emulated driver before each job.
pub struct SeededEngine(CudaEngine);

impl SeededEngine {
    fn next(&self) -> &CudaEngine {
        static TURN: AtomicUsize = AtomicUsize::new(0);
        if emulated::driver().is_some() {
            let turn = TURN.fetch_add(1, Ordering::Relaxed);
            emulated::seed(SEEDS[turn % SEEDS.len()]);
        }
        &self.0
    }
}

impl EngineModel for SeededEngine {
    fn description(&self) -> DeviceInfo {
        self.0.description()
    }

    fn msm_piece_len(&self, group: Group, n: usize) -> usize {
        self.0.msm_piece_len(group, n)
    }

    fn msm_scratch_bytes(&self, group: Group, n: usize) -> u64 {
        self.0.msm_scratch_bytes(group, n)
    }

    fn modelled_time(&self, work: &EngineWork) -> Duration {
        self.0.modelled_time(work)
    }
}

impl MsmNttEngine for SeededEngine {
    fn msm(&self, bases: Bases, batch: usize) -> Result<Box<dyn MsmRun>> {
        self.next().msm(bases, batch)
    }

    fn ntt(&self, plan: &NttPlan, rows: &NttRows<'_>, control: &JobControl) -> Result<ExecutedBy> {
        self.next().ntt(plan, rows, control)
    }

    fn ntt31(
        &self,
        field: Field31,
        plan: &NttPlan<Element31>,
        rows: &mut [Vec<Element31>],
        control: &JobControl,
    ) -> Result<ExecutedBy> {
        self.next().ntt31(field, plan, rows, control)
    }
}

/// One engine for all tests, which use it concurrently. It leaves nothing to the CPU.
pub fn engine() -> &'static SeededEngine {
    static ENGINE: OnceLock<SeededEngine> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let wanted = DeviceSelection { driver: emulated::driver(), devices: vec![0] };
        let options = OpenOptions {
            memory_percent: if emulated::driver().is_some() { 60 } else { 10 },
            memory_wait: Duration::ZERO,
            arena_bytes_min: None,
            timeout: Duration::from_secs(300),
            on_fault: Arc::new(|fault: &DeviceFault| eprintln!("{fault}")),
            policy: DevicePolicy {
                shared_bytes_max: emulated::shared_bytes_max(),
                ..DevicePolicy::default()
            },
        };
        let opened = device::open(&wanted, &options).unwrap();
        // `tests/device` runs the self-test.
        let policy = GpuPolicy { self_test: Some(SelfTestSizes::NONE), ..GpuPolicy::default() };
        SeededEngine(CudaEngine::new(CpuEngine::new(1).unwrap(), opened, policy).unwrap())
    })
}

/// Fewer and smaller sizes on the emulated driver: it is about 1000 times slower than a GPU.
pub fn suite_sizes() -> SuiteSizes {
    if emulated::driver().is_none() {
        let mut reach = all_sizes();
        // Large enough to start before all scalars have arrived, to sort in several passes, etc.
        reach.g1.extend([1 << 14, (1 << 16) + 1, (1 << 18) - 1, 1 << 20, (1 << 20) + 1]);
        reach.g2.extend([1 << 13, (1 << 16) - 1]);
        return reach;
    }
    let mut g1 = msm::around_powers(7..=7);
    g1.extend([(1 << 8) - 1, (1 << 9) + 1, 1 << 10, (1 << 12) - 1]);
    let g2 = vec![127, 128, 129, 257];
    let all = SuiteSizes { g1, g2, small_step: 1, lg_ntt: 12, sampling: 3 };
    if has_all_cases() {
        return all;
    }
    SuiteSizes { g1: vec![129, 1 << 10], g2: vec![129], small_step: 11, lg_ntt: 11, sampling: 9 }
}
