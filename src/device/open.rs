//! From a configuration to open, tested devices.

use std::{path::PathBuf, sync::Arc, time::Duration};

use super::{Arena, Context, Driver, Fault, Identity, OnFault, Ring, Unusable, self_test};

/// A ring's chunk: long enough that a copy of it takes far longer (75 us on an H200) than to ask
/// for one (5 us).
const CHUNK_BYTES: usize = 4 << 20;

/// A few are filled while others are copied.
const CHUNKS: usize = 8;

/// What is left over of device memory is given to no one: the driver wants some per context.
const GRAIN_BYTES: u64 = 2 << 20;

/// Which driver and devices.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The driver's library; `None` for the system's.
    pub driver: Option<PathBuf>,
    /// Numbers of devices, as the driver counts them; none for all.
    pub devices: Vec<u32>,
}

/// How devices are used.
#[derive(Clone)]
pub struct OpenOptions {
    /// Share of the free memory that the arena takes, 1 to 100.
    pub memory_percent: u64,
    /// How long a device may take for what it was given: longer waits are faults.
    pub patience: Duration,
    /// Told of faults.
    pub on_fault: OnFault,
    /// Bytes of shared memory that a block is given at most. Tests set it to run on one device the
    /// plans of devices that have less; `None` for all that the device has.
    pub shared_bytes_max: Option<u32>,
}

/// The devices that are used, and those that are not.
pub struct Opened {
    /// Open and tested.
    pub gpus: Vec<Gpu>,
    /// Devices that were wanted and cannot be used.
    pub left_out: Vec<LeftOut>,
}

impl From<Gpu> for Opened {
    fn from(gpu: Gpu) -> Self {
        Self { gpus: vec![gpu], left_out: Vec::new() }
    }
}

/// A device that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Its number, as the driver counts.
    pub index: u32,
    /// Why, in a sentence that names the device.
    pub reason: Unusable,
}

/// An open device with its memory. Clones share it.
#[derive(Clone)]
pub struct Gpu {
    context: Context,
    arena: Arena,
    ring: Ring,
    self_test: String,
}

/// Opens the wanted devices and tests each. One that cannot be used does not keep others from use.
///
/// Errors: why there is no driver or no device; `AllLeftOut` if no device can be used.
pub fn open(wanted: &Wanted, options: &OpenOptions) -> Result<Opened, Unusable> {
    let driver = Driver::load(wanted.driver.as_deref())?;
    let count = driver.device_count()?;
    let all: Vec<_> = (0..count).collect();
    let indices = if wanted.devices.is_empty() { &all } else { &wanted.devices };
    let mut opened = Opened { gpus: Vec::new(), left_out: Vec::new() };
    for &index in indices {
        let gpu = if index < count {
            Gpu::open(driver.clone(), index, options)
        } else {
            Err(Unusable::NoSuchDevice { index, count })
        };
        match gpu {
            Ok(gpu) => opened.gpus.push(gpu),
            Err(reason) => opened.left_out.push(LeftOut { index, reason }),
        }
    }
    if opened.gpus.is_empty() {
        return Err(Unusable::AllLeftOut(opened.left_out));
    }
    Ok(opened)
}

impl Gpu {
    /// Opens device number `index`, takes its memory, and tests it.
    ///
    /// Errors: `Device`, `NoKernels`, `NoImage`.
    pub fn open(driver: Arc<Driver>, index: u32, options: &OpenOptions) -> Result<Self, Unusable> {
        let failed = |fault| Unusable::Device { index, fault };
        let mut gpu = Self::untested(driver, index, options).map_err(failed)?;
        gpu.self_test = self_test::run(&gpu)?;
        Ok(gpu)
    }

    fn untested(driver: Arc<Driver>, index: u32, options: &OpenOptions) -> Result<Self, Fault> {
        let context = Context::open(driver, index, options)?;
        let (free, _) = context.memory_info()?;
        // In this order, so that the product does not overflow.
        let bytes = free / 100 * options.memory_percent / GRAIN_BYTES * GRAIN_BYTES;
        let arena = Arena::take(&context, bytes.max(GRAIN_BYTES))?;
        let ring = Ring::take(&context, CHUNK_BYTES, CHUNKS)?;
        Ok(Self { context, arena, ring, self_test: String::new() })
    }

    /// The device.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// What the device is.
    pub fn identity(&self) -> &Identity {
        self.context.identity()
    }

    /// Its memory.
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// What its test found, in a sentence.
    pub fn self_test(&self) -> &str {
        &self.self_test
    }

    /// Pinned memory for what goes there and comes back.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }
}
