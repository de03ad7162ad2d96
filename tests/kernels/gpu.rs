//! A device to run kernels on. Every test crate may have this as a module.
#![allow(dead_code)] // no crate uses all of it

use std::{
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use bytemuck::Pod;
use capstan::device::{
    self, Block, Context, DeviceLimits, Gpu, Kernel, Lease, Module, OpenOptions, Parameters, Span,
    Stream, Wanted,
};

use crate::emulated::{self, SEEDS, seed};

/// A device and a stream on it, for one test at a time.
pub struct Rig {
    gpu: &'static Gpu,
    stream: Stream,
    /// Which of the seeds.
    order: Option<usize>,
    _turn: MutexGuard<'static, ()>,
}

/// Runs `test` under every seed; once, where a GPU is.
pub fn each_seed(test: impl Fn(&Rig)) {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let gpu = open();
    let mut rig =
        Rig { gpu, stream: Stream::new(gpu.context()).unwrap(), order: None, _turn: turn };
    if emulated::driver().is_none() {
        return test(&rig);
    }
    for (order, number) in SEEDS.into_iter().enumerate() {
        seed(number);
        println!("seed {number}");
        rig.order = Some(order);
        rig.stream = Stream::new(gpu.context()).unwrap();
        test(&rig);
    }
}

/// The device, opened once.
pub fn open() -> &'static Gpu {
    static GPU: OnceLock<Gpu> = OnceLock::new();
    // Sanitizers track each byte: some 200 MB are enough, and 1.4 GB on an H200.
    GPU.get_or_init(|| open_with(if emulated::driver().is_some() { 20 } else { 1 }))
}

/// The device with that part of the memory that is free.
pub fn open_with(memory_percent: u64) -> Gpu {
    let wanted = Wanted { driver: emulated::driver(), devices: vec![0] };
    let patience = Duration::from_secs(300);
    let on_fault = Arc::new(|fault: &device::Fault| eprintln!("{fault}"));
    let shared_bytes_max = emulated::shared_bytes_max();
    let options = OpenOptions { memory_percent, patience, on_fault, shared_bytes_max };
    device::open(&wanted, &options).unwrap().gpus.remove(0)
}

impl Rig {
    /// Whether this seed is the one for `case`, of cases that take long on the emulated driver and
    /// whose parts are tested under every seed. A GPU does all.
    pub fn takes(&self, case: usize) -> bool {
        self.order.is_none_or(|order| case % SEEDS.len() == order)
    }

    /// The device.
    pub fn gpu(&self) -> &Gpu {
        self.gpu
    }

    /// What kernels may use of it.
    pub fn limits(&self) -> DeviceLimits {
        self.gpu.identity().limits
    }

    /// Its context.
    pub fn context(&self) -> &Context {
        self.gpu.context()
    }

    /// Where everything runs.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Kernel `name` of `module` in blocks of `threads`.
    pub fn kernel<P: Parameters>(&self, module: &str, name: &str, threads: u32) -> Kernel<P> {
        self.kernel_in(module, name, Block::of(threads))
    }

    /// The same in blocks with shared memory.
    pub fn kernel_in<P: Parameters>(&self, module: &str, name: &str, block: Block) -> Kernel<P> {
        Module::load(self.gpu.context(), module).unwrap().kernel(name, block).unwrap()
    }

    /// Runs `grid` blocks.
    pub fn launch<P: Parameters>(&self, kernel: &Kernel<P>, grid: u32, given: P::Given<'_>) {
        kernel.launch(&self.stream, grid, given).unwrap();
    }

    /// A lease that holds `values`.
    pub fn put<T: Pod>(&self, values: &[T]) -> Lease {
        let lease = self.room::<T>(values.len());
        self.write(lease.all(), values);
        lease
    }

    /// Copies `values` to the device.
    pub fn write<T: Pod>(&self, to: Span<'_, u8>, values: &[T]) {
        self.gpu.ring().upload(&self.stream, to).write(bytemuck::cast_slice(values)).unwrap();
    }

    /// A lease of `count` elements.
    pub fn room<T>(&self, count: usize) -> Lease {
        self.gpu.arena().lease(&self.stream, (count * size_of::<T>()) as u64).unwrap()
    }

    /// What a lease holds, once all that was launched is done.
    pub fn get<T: Pod>(&self, lease: &Lease) -> Vec<T> {
        self.read(lease.all())
    }

    /// What is there, once all that was launched is done.
    pub fn read<T: Pod>(&self, from: Span<'_, u8>) -> Vec<T> {
        let mut found = Vec::new();
        let take = |bytes: &[u8]| {
            found.extend_from_slice(bytes);
            Ok::<_, device::Fault>(())
        };
        self.gpu.ring().download(&self.stream, from, take).unwrap();
        found.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()
    }
}
