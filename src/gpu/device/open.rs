//! Opens and tests the configured devices.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use super::{
    CudaDriver, DeviceArena, DeviceContext, DeviceFault, DeviceIdentity, DeviceSelection,
    GpuUnavailable, JobStream, OpenOptions, StagingRing, UnusableDevice, job_stream::IdleStreams,
    self_test,
};

/// Bytes of a chunk of the ring: copying one takes 15 times as long as launching the copy
/// (`benches/experiments/host-device.md`).
const CHUNK_BYTES: usize = 4 << 20;

/// Enough to fill some chunks while others are copied.
const CHUNKS: usize = 8;

/// Time between two looks at the free memory.
const MEMORY_POLL: Duration = Duration::from_millis(5);

/// The arena's size is a multiple of this; the rest is left to the driver's contexts.
const ARENA_GRAIN_BYTES: u64 = 2 << 20;

/// The devices that are used, and those that cannot be used.
pub struct OpenDevices {
    /// The devices that passed their test.
    pub gpus: Vec<Gpu>,
    pub unusable: Vec<UnusableDevice>,
}

impl From<Gpu> for OpenDevices {
    fn from(gpu: Gpu) -> Self {
        Self { gpus: vec![gpu], unusable: Vec::new() }
    }
}

/// An open device, its memory and its staging ring. Clones share them.
#[derive(Clone)]
pub struct Gpu {
    context: DeviceContext,
    arena: DeviceArena,
    ring: StagingRing,
    idle_streams: IdleStreams,
    self_test: String,
}

/// Opens and tests the requested devices. A device that cannot be used is left out.
///
/// Errors: there is no driver or no device; `AllLeftOut` if no device can be used.
pub fn open(
    selection: &DeviceSelection,
    options: &OpenOptions,
) -> Result<OpenDevices, GpuUnavailable> {
    let driver = CudaDriver::load(selection.driver.as_deref())?;
    let count = driver.device_count()?;
    let all: Vec<_> = (0..count).collect();
    let indices = if selection.devices.is_empty() { &all } else { &selection.devices };
    let mut opened = OpenDevices { gpus: Vec::new(), unusable: Vec::new() };
    for &index in indices {
        let gpu = if index < count {
            Gpu::open(driver.clone(), index, options)
        } else {
            Err(GpuUnavailable::NoSuchDevice { index, count })
        };
        match gpu {
            Ok(gpu) => opened.gpus.push(gpu),
            Err(reason) => opened.unusable.push(UnusableDevice { index, reason }),
        }
    }
    if opened.gpus.is_empty() {
        return Err(GpuUnavailable::AllLeftOut(opened.unusable));
    }
    Ok(opened)
}

/// The free memory of a device, once it `suffices` or after `wait`.
fn free_bytes(
    context: &DeviceContext,
    suffices: impl Fn(u64) -> bool,
    wait: Duration,
) -> Result<u64, DeviceFault> {
    let begun = Instant::now();
    loop {
        let free = context.free_bytes()?;
        if suffices(free) || begun.elapsed() >= wait {
            return Ok(free);
        }
        thread::sleep(MEMORY_POLL);
    }
}

impl Gpu {
    fn open(
        driver: Arc<CudaDriver>,
        index: u32,
        options: &OpenOptions,
    ) -> Result<Self, GpuUnavailable> {
        let allocate = || {
            let begun = Instant::now();
            let since = |start: Instant| start.elapsed().as_millis() as u64;
            let context = DeviceContext::open(driver, index, options)?;
            tracing::debug!(device = index, ms = since(begun), "context opened");
            let begun = Instant::now();
            let total_bytes = context.identity().memory_bytes;
            // Division first, so that the product does not overflow.
            let arena_bytes = |free: u64| {
                free / 100 * options.memory_percent / ARENA_GRAIN_BYTES * ARENA_GRAIN_BYTES
            };
            let suffices = |free_bytes| match options.arena_bytes_min {
                Some(wanted) => arena_bytes(free_bytes) >= wanted,
                None => free_bytes >= total_bytes / 4 * 3,
            };
            let free_bytes = free_bytes(&context, suffices, options.memory_wait)?;
            tracing::debug!(device = index, ms = since(begun), free_bytes, "memory is free");
            let begun = Instant::now();
            if !suffices(free_bytes) {
                tracing::warn!(
                    device = index,
                    free_bytes,
                    total_bytes,
                    "other processes use memory of this GPU: a part of what is free is taken"
                );
            }
            let bytes = arena_bytes(free_bytes).max(ARENA_GRAIN_BYTES);
            let gate = options.policy.lease_gate.clone();
            let arena = DeviceArena::allocate(&context, bytes, gate)?;
            let ring = StagingRing::allocate(&context, CHUNK_BYTES, CHUNKS)?;
            tracing::debug!(device = index, ms = since(begun), "memory allocated");
            Ok((context, arena, ring))
        };
        let (context, arena, ring) =
            allocate().map_err(|fault| GpuUnavailable::Device { index, fault })?;
        let self_test = self_test::run(&context, &arena, &ring)?;
        Ok(Self { context, arena, ring, idle_streams: IdleStreams::default(), self_test })
    }

    pub fn context(&self) -> &DeviceContext {
        &self.context
    }

    pub fn identity(&self) -> &DeviceIdentity {
        self.context.identity()
    }

    pub fn arena(&self) -> &DeviceArena {
        &self.arena
    }

    pub fn ring(&self) -> &StagingRing {
        &self.ring
    }

    /// A stream for one job.
    pub fn job_stream(&self) -> Result<JobStream, DeviceFault> {
        self.idle_streams.take(&self.context)
    }

    /// Waits until the memory of ended jobs is zero, which is the last that they do.
    ///
    /// Errors: faults of these jobs; `Disabled` after an earlier fault.
    pub fn wait_for_ended_jobs(&self) -> Result<(), DeviceFault> {
        self.arena.wait_until_zeroed()?;
        // Faults of calls that destroy objects are returned nowhere.
        if self.context.is_alive() { Ok(()) } else { Err(DeviceFault::Disabled) }
    }

    /// The outcome of the self-test, in a sentence.
    pub fn self_test(&self) -> &str {
        &self.self_test
    }
}
