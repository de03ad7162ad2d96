//! Opens and tests the configured devices.

use std::{path::PathBuf, sync::Arc, time::Duration};

use super::{
    CudaDriver, DeviceArena, DeviceContext, DeviceFault, DeviceIdentity, FaultHandler,
    GpuUnavailable, StagingRing, self_test,
};

/// Bytes of a chunk of the ring: copying one (75 us on an H200) takes far longer than launching the
/// copy (5 us).
const CHUNK_BYTES: usize = 4 << 20;

/// Enough to fill some chunks while others are copied.
const CHUNKS: usize = 8;

/// The arena's size is a multiple of this; the rest is left to the driver's contexts.
const ARENA_GRAIN_BYTES: u64 = 2 << 20;

/// Which driver and devices to use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceSelection {
    /// Path of the driver library; `None` for the system's.
    pub driver: Option<PathBuf>,
    /// Device numbers in the driver's order; empty for all devices.
    pub devices: Vec<u32>,
}

/// How devices are used.
#[derive(Clone)]
pub struct OpenOptions {
    /// Percentage of the free device memory that the arena takes, 1 to 100.
    pub memory_percent: u64,
    /// Longest wait for work on a device; a longer one is a `Hang` fault.
    pub patience: Duration,
    /// Called for every fault.
    pub on_fault: FaultHandler,
    /// Limits the shared memory of a block, in bytes, so that tests can run the plans of smaller
    /// devices; `None` for the device's own limit.
    pub shared_bytes_max: Option<u32>,
}

/// The devices that are used, and those that cannot be used.
pub struct OpenDevices {
    /// Devices that are open and have passed their test.
    pub gpus: Vec<Gpu>,
    /// Devices that were requested and cannot be used.
    pub unusable: Vec<UnusableDevice>,
}

impl From<Gpu> for OpenDevices {
    fn from(gpu: Gpu) -> Self {
        Self { gpus: vec![gpu], unusable: Vec::new() }
    }
}

/// A device that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusableDevice {
    /// Device number in the driver's order.
    pub index: u32,
    /// The reason, in a sentence that names the device.
    pub reason: GpuUnavailable,
}

/// An open device, its memory and its staging ring. Clones share them.
#[derive(Clone)]
pub struct Gpu {
    context: DeviceContext,
    arena: DeviceArena,
    ring: StagingRing,
    self_test: String,
}

/// Opens and tests the requested devices. A device that cannot be used is left out.
///
/// Errors: there is no driver or no device; `AllLeftOut` if no device can be used.
pub fn open(
    wanted: &DeviceSelection,
    options: &OpenOptions,
) -> Result<OpenDevices, GpuUnavailable> {
    let driver = CudaDriver::load(wanted.driver.as_deref())?;
    let count = driver.device_count()?;
    let all: Vec<_> = (0..count).collect();
    let indices = if wanted.devices.is_empty() { &all } else { &wanted.devices };
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

impl Gpu {
    /// Opens device number `index`, allocates its arena and ring, and tests it.
    ///
    /// Errors: `Device`, `NoKernels`, `NoImageForDevice`.
    pub fn open(
        driver: Arc<CudaDriver>,
        index: u32,
        options: &OpenOptions,
    ) -> Result<Self, GpuUnavailable> {
        let failed = |fault| GpuUnavailable::Device { index, fault };
        let mut gpu = Self::untested(driver, index, options).map_err(failed)?;
        gpu.self_test = self_test::run(&gpu)?;
        Ok(gpu)
    }

    fn untested(
        driver: Arc<CudaDriver>,
        index: u32,
        options: &OpenOptions,
    ) -> Result<Self, DeviceFault> {
        let context = DeviceContext::open(driver, index, options)?;
        let (free, _) = context.memory_info()?;
        // Division first, so that the product does not overflow.
        let bytes = free / 100 * options.memory_percent / ARENA_GRAIN_BYTES * ARENA_GRAIN_BYTES;
        let arena = DeviceArena::allocate(&context, bytes.max(ARENA_GRAIN_BYTES))?;
        let ring = StagingRing::allocate(&context, CHUNK_BYTES, CHUNKS)?;
        Ok(Self { context, arena, ring, self_test: String::new() })
    }

    /// The device's context.
    pub fn context(&self) -> &DeviceContext {
        &self.context
    }

    /// The device's name and properties.
    pub fn identity(&self) -> &DeviceIdentity {
        self.context.identity()
    }

    /// The device's memory.
    pub fn arena(&self) -> &DeviceArena {
        &self.arena
    }

    /// The outcome of the self-test, in a sentence.
    pub fn self_test(&self) -> &str {
        &self.self_test
    }

    /// Pinned host memory for uploads and downloads.
    pub fn ring(&self) -> &StagingRing {
        &self.ring
    }
}
