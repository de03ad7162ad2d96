//! A device to run kernels on, shared by several test crates.
#![allow(dead_code)] // no crate uses all of it

use std::{
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use bytemuck::Pod;
use capstan::device::{
    self, BlockShape, DeviceContext, DeviceLease, DeviceLimits, DevicePolicy, DeviceSelection,
    DeviceSlice, Gpu, Kernel, KernelModule, KernelParameters, OpenOptions, Stream,
};

use crate::{
    emulated::{self, SEEDS},
    repeat::seeded_part,
};

/// A device and a stream, for one test at a time.
pub struct KernelRig {
    gpu: &'static Gpu,
    stream: Stream,
    /// The part of the slow cases that runs; `None` for all.
    part: Option<usize>,
    _exclusive: MutexGuard<'static, ()>,
}

/// Runs `test` under the seed of this process; sweeps start a process for each seed.
pub fn each_seed(test: impl Fn(&KernelRig)) {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let gpu = open();
    let mut part = None;
    if emulated::driver().is_some() {
        let chosen = seeded_part();
        println!("{chosen:?}");
        emulated::seed(chosen.seed);
        part = Some(chosen.part);
    }
    let stream = Stream::new(gpu.context()).unwrap();
    test(&KernelRig { gpu, stream, part, _exclusive: turn });
}

/// The device, opened once.
pub fn open() -> &'static Gpu {
    static GPU: OnceLock<Gpu> = OnceLock::new();
    // Sanitizers track each byte, so use little memory: some 200 MB, and 1.6 GB on an H100.
    GPU.get_or_init(|| open_with(if emulated::driver().is_some() { 20 } else { 2 }))
}

/// Opens the device with an arena of that part of its free memory.
pub fn open_with(memory_percent: u64) -> Gpu {
    let wanted = DeviceSelection { driver: emulated::driver(), devices: vec![0] };
    let timeout = Duration::from_secs(300);
    let on_fault = Arc::new(|fault: &device::DeviceFault| eprintln!("{fault}"));
    let policy =
        DevicePolicy { shared_bytes_max: emulated::shared_bytes_max(), ..DevicePolicy::default() };
    let memory_wait = Duration::ZERO;
    let arena_bytes_min = None;
    let options =
        OpenOptions { memory_percent, memory_wait, arena_bytes_min, timeout, on_fault, policy };
    device::open(&wanted, &options).unwrap().gpus.remove(0)
}

impl KernelRig {
    /// Whether to run `case` now: cases that are slow on the emulated driver run under one seed
    /// each. A GPU runs all of them.
    pub fn runs_case(&self, case: usize) -> bool {
        self.part.is_none_or(|part| case % SEEDS.len() == part)
    }

    pub fn gpu(&self) -> &Gpu {
        self.gpu
    }

    /// What kernels may use of the device.
    pub fn limits(&self) -> DeviceLimits {
        self.gpu.identity().limits
    }

    pub fn context(&self) -> &DeviceContext {
        self.gpu.context()
    }

    /// The stream of all copies and launches.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Loads kernel `name` of `module`, for blocks of `threads`.
    pub fn kernel<P: KernelParameters>(&self, module: &str, name: &str, threads: u32) -> Kernel<P> {
        self.kernel_with_block(module, name, BlockShape::threads(threads))
    }

    /// Loads kernel `name` of `module`, for blocks that may have dynamic shared memory.
    pub fn kernel_with_block<P: KernelParameters>(
        &self,
        module: &str,
        name: &str,
        block: BlockShape,
    ) -> Kernel<P> {
        KernelModule::load(self.gpu.context(), module).unwrap().kernel(name, block).unwrap()
    }

    /// Launches `grid` blocks.
    pub fn launch<P: KernelParameters>(
        &self,
        kernel: &Kernel<P>,
        grid: u32,
        given: P::Argument<'_>,
    ) {
        kernel.launch(&self.stream, grid, given).unwrap();
    }

    /// Copies `values` to a new lease.
    pub fn upload<T: Pod>(&self, values: &[T]) -> DeviceLease {
        let lease = self.lease::<T>(values.len());
        self.write(lease.all(), values);
        lease
    }

    /// Copies `values` to the device.
    pub fn write<T: Pod>(&self, to: DeviceSlice<'_, u8>, values: &[T]) {
        self.gpu.ring().upload(&self.stream, to).write(bytemuck::cast_slice(values)).unwrap();
    }

    /// Leases memory for `count` elements.
    pub fn lease<T>(&self, count: usize) -> DeviceLease {
        self.gpu.arena().lease(&self.stream, (count * size_of::<T>()) as u64).unwrap()
    }

    /// Waits for the stream and reads a whole lease.
    pub fn download<T: Pod>(&self, lease: &DeviceLease) -> Vec<T> {
        self.read(lease.all())
    }

    /// Waits for the stream and reads `from`.
    pub fn read<T: Pod>(&self, from: DeviceSlice<'_, u8>) -> Vec<T> {
        let mut found = Vec::new();
        let take = |bytes: &[u8]| {
            found.extend_from_slice(bytes);
            Ok::<_, device::DeviceFault>(())
        };
        self.gpu.ring().download(&self.stream, from, take).unwrap();
        found.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()
    }
}
