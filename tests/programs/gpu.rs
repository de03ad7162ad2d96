//! The executor of GPUs: on the machine's GPU, else on the emulated driver.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use capstan::{
    device::{self, DeviceFault, DevicePolicy, DeviceSelection, LeaseGate, OpenOptions},
    engine::{
        cpu::{ArkworksEngine, CpuEngine},
        cuda::{CudaEngine, GpuPolicy, self_test::SelfTestSizes},
    },
    exec::{GpuExecutor, HostExecutor},
};

use crate::emulated::{self, SEEDS};

/// An executor on a new engine, whose arena has `memory_percent` of the device's memory and
/// consults `lease_gate`.
pub fn open(memory_percent: u64, lease_gate: LeaseGate, policy: GpuPolicy) -> GpuExecutor {
    let wanted = DeviceSelection { driver: emulated::driver(), devices: vec![0] };
    let options = OpenOptions {
        memory_percent,
        memory_wait: Duration::ZERO,
        arena_bytes_min: None,
        timeout: Duration::from_secs(300),
        on_fault: Arc::new(|fault: &DeviceFault| eprintln!("{fault}")),
        policy: DevicePolicy { shared_bytes_max: emulated::shared_bytes_max(), lease_gate },
    };
    let opened = device::open(&wanted, &options).expect("a GPU");
    let cpu = CpuEngine::new(1).expect("threads");
    // `tests/device` runs the self-test.
    let policy = GpuPolicy { self_test: Some(SelfTestSizes::NONE), ..policy };
    let engine = Arc::new(CudaEngine::new(cpu, opened, policy).expect("a GPU"));
    let oracle = Arc::new(ArkworksEngine::new(1).expect("threads"));
    GpuExecutor::new(engine, Some(oracle))
}

/// The executor of all tests, which use it concurrently; each call changes the emulated driver's
/// seed.
pub fn executor() -> &'static GpuExecutor {
    static EXECUTOR: OnceLock<GpuExecutor> = OnceLock::new();
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    if emulated::driver().is_some() {
        emulated::seed(SEEDS[CALLS.fetch_add(1, Ordering::Relaxed) % SEEDS.len()]);
    }
    let memory_percent = if emulated::driver().is_some() { 60 } else { 10 };
    EXECUTOR.get_or_init(|| open(memory_percent, Arc::new(|| true), GpuPolicy::default()))
}

/// Executors whose values are in the host's memory, and whose GPU eliminates matrices there, one,
/// two and three strips of columns at a time.
pub fn in_blocks() -> impl Iterator<Item = &'static HostExecutor> {
    static EXECUTORS: OnceLock<[GpuExecutor; 3]> = OnceLock::new();
    // It takes its part of the memory first.
    executor();
    let of_strips = |strips| {
        let policy = GpuPolicy { block_strips_max: Some(strips), ..GpuPolicy::default() };
        open(10, Arc::new(|| true), policy)
    };
    EXECUTORS.get_or_init(|| [1, 2, 3].map(of_strips)).iter().map(|executor| &executor.host)
}
