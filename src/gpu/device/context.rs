//! A device's context. All calls to the driver go through [`DeviceContext::call`].

use std::{
    cell::Cell,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use cudarc::driver::{DriverError, result, sys};

use super::{
    CudaDriver, DeviceFault, DeviceLimits, FaultClass, FaultHandler, MajorMinor, OpenOptions,
    driver::DriverHandle,
};
use crate::region::DeviceAccess;

/// A device's name and properties, which never change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceIdentity {
    /// Device number in the driver's order.
    pub index: u32,
    pub name: String,
    pub capability: MajorMinor,
    pub limits: DeviceLimits,
    pub memory_bytes: u64,
    /// PCI bus id, such as "00000000:17:00.0"; empty if the driver does not report it.
    pub pci_bus_id: String,
}

/// An open device. Clones share it; it may be used from any thread.
#[derive(Clone)]
pub struct DeviceContext(Arc<ContextInner>);

struct ContextInner {
    driver: Arc<CudaDriver>,
    device: sys::CUdevice,
    context: DriverHandle<sys::CUcontext>,
    serial: u64,
    identity: DeviceIdentity,
    timeout: Duration,
    /// Waits for work on the device that are in progress.
    waits: AtomicU32,
    is_disabled: AtomicBool,
    on_fault: FaultHandler,
}

/// A wait for work on a device, until it is dropped. The device may do first what earlier waits are
/// for, so that the limit on one piece of work holds for each of them.
pub struct DeviceWait<'a> {
    context: &'a DeviceContext,
    /// The longest time that the wait may take.
    pub limit: Duration,
}

impl Drop for DeviceWait<'_> {
    fn drop(&mut self) {
        self.context.0.waits.fetch_sub(1, Ordering::AcqRel);
    }
}

thread_local! {
    /// The `serial` of the context that is current on this thread; 0 for none. Only this module
    /// sets one. Not the handle, since the driver may reuse it for a later context.
    static CURRENT: Cell<u64> = const { Cell::new(0) };
}

static LAST_SERIAL: AtomicU64 = AtomicU64::new(0);

impl DeviceContext {
    pub(super) fn open(
        driver: Arc<CudaDriver>,
        index: u32,
        options: &OpenOptions,
    ) -> Result<Self, DeviceFault> {
        let shared_bytes_max = options.policy.shared_bytes_max.unwrap_or(u32::MAX);
        let failed = |call| move |error| DeviceFault::from_driver(call, error);
        let device = result::device::get(index as i32).map_err(failed("cuDeviceGet"))?;
        let identity =
            identity(device, index, shared_bytes_max).map_err(failed("cuDeviceGetAttribute"))?;
        // SAFETY: the device is one of the driver's.
        let context = unsafe { result::primary_ctx::retain(device) }
            .map_err(failed("cuDevicePrimaryCtxRetain"))?;
        Ok(Self(Arc::new(ContextInner {
            driver,
            device,
            context: DriverHandle(context),
            serial: LAST_SERIAL.fetch_add(1, Ordering::Relaxed) + 1,
            identity,
            timeout: options.timeout,
            waits: AtomicU32::new(0),
            is_disabled: AtomicBool::new(false),
            on_fault: options.on_fault.clone(),
        })))
    }

    pub fn identity(&self) -> &DeviceIdentity {
        &self.0.identity
    }

    pub fn driver(&self) -> &CudaDriver {
        &self.0.driver
    }

    /// The time limit for one piece of work.
    pub fn timeout(&self) -> Duration {
        self.0.timeout
    }

    /// Begins a wait for work on the device.
    pub fn begin_wait(&self) -> DeviceWait<'_> {
        let others = self.0.waits.fetch_add(1, Ordering::AcqRel);
        DeviceWait { context: self, limit: self.0.timeout.saturating_mul(others.saturating_add(1)) }
    }

    /// False after a fatal fault.
    pub fn is_alive(&self) -> bool {
        !self.0.is_disabled.load(Ordering::Acquire)
    }

    /// Calls the driver with this context current and classifies its errors.
    ///
    /// Errors: `Disabled`, without a call, after a fatal fault.
    pub(super) fn call<T>(
        &self,
        name: &'static str,
        call: impl FnOnce() -> Result<T, DriverError>,
    ) -> Result<T, DeviceFault> {
        self.make_current()?;
        call().map_err(|error| self.report(DeviceFault::from_driver(name, error)))
    }

    /// Makes the context current on this thread.
    fn make_current(&self) -> Result<(), DeviceFault> {
        if !self.is_alive() {
            return Err(DeviceFault::Disabled);
        }
        if CURRENT.get() != self.0.serial {
            // SAFETY: the context lives as long as `self`.
            let set = unsafe { result::ctx::set_current(self.0.context.0) };
            set.map_err(|error| self.report(DeviceFault::from_driver("cuCtxSetCurrent", error)))?;
            CURRENT.set(self.0.serial);
        }
        Ok(())
    }

    /// Reports the fault, disables the device if it is fatal, and returns the fault.
    pub(super) fn report(&self, fault: DeviceFault) -> DeviceFault {
        let index = self.0.identity.index;
        match fault.class() {
            FaultClass::Fatal
                if fault == DeviceFault::Disabled
                    || self.0.is_disabled.swap(true, Ordering::AcqRel) =>
            {
                return fault;
            }
            FaultClass::Fatal => {
                tracing::error!(device = index, %fault, "device disabled by a fatal fault");
            }
            FaultClass::Exhausted | FaultClass::Misuse => {
                tracing::warn!(device = index, %fault, "device fault");
            }
        }
        (self.0.on_fault)(&fault);
        fault
    }

    /// Allocates `bytes` zeroed bytes of pinned host memory that all devices can access.
    pub(super) fn allocate_host(&self, bytes: usize) -> Result<*mut u8, DeviceFault> {
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE;
        // SAFETY: zeroed right below.
        let allocate = || unsafe { result::malloc_host(bytes, flags) };
        let base = self.call("cuMemHostAlloc", allocate)?.cast::<u8>();
        // SAFETY: the allocation has this length and no other user yet.
        unsafe { base.write_bytes(0, bytes) };
        Ok(base)
    }

    /// Pins host memory that all devices can access. If the driver refuses, the device stays
    /// usable.
    pub(super) fn register_host(
        &self,
        addresses: Range<usize>,
        access: DeviceAccess,
    ) -> Result<(), DeviceFault> {
        let start = addresses.start as *mut _;
        let bytes = addresses.len();
        let reads = access == DeviceAccess::Read && self.identity().limits.pins_read_only;
        let flag = if reads { sys::CU_MEMHOSTREGISTER_READ_ONLY } else { 0 };
        let flags = sys::CU_MEMHOSTREGISTER_PORTABLE | flag;
        // SAFETY: the caller keeps the memory mapped until it unpins it.
        self.try_call("cuMemHostRegister", || unsafe {
            sys::cuMemHostRegister_v2(start, bytes, flags).result()
        })
    }

    /// Unpins host memory, with which no copy is under way.
    pub(super) fn unregister_host(&self, start: usize) -> Result<(), DeviceFault> {
        // SAFETY: as above; the driver refuses addresses that are not pinned.
        self.try_call("cuMemHostUnregister", || unsafe {
            sys::cuMemHostUnregister(start as *mut _).result()
        })
    }

    /// Like [`Self::call`], but the errors of the call itself have no consequences.
    fn try_call<T>(
        &self,
        name: &'static str,
        call: impl FnOnce() -> Result<T, DriverError>,
    ) -> Result<T, DeviceFault> {
        let result = self.call(name, || Ok(call()))?;
        result.map_err(|error| DeviceFault::from_driver(name, error))
    }

    /// Bytes of device memory that no process uses.
    pub(super) fn free_bytes(&self) -> Result<u64, DeviceFault> {
        let (free, _total) = self.call("cuMemGetInfo", result::mem_get_info)?;
        Ok(free as u64)
    }
}

impl Drop for ContextInner {
    fn drop(&mut self) {
        // After a fatal fault any driver call may hang, and the process is about to exit.
        if *self.is_disabled.get_mut() {
            return;
        }
        // SAFETY: retained once in `open`; everything made in the context holds a clone of it.
        if let Err(error) = unsafe { result::primary_ctx::release(self.device) } {
            tracing::warn!(device = self.identity.index, error = ?error.0, "context not released");
        }
    }
}

/// The first compute capability without instructions that multiply matrices of bits.
const CAPABILITY_WITHOUT_BIT_PRODUCTS: MajorMinor = MajorMinor { major: 10, minor: 0 };

pub(super) fn identity(
    device: sys::CUdevice,
    index: u32,
    shared_bytes_max: u32,
) -> Result<DeviceIdentity, DriverError> {
    use sys::CUdevice_attribute::*;
    let attribute = |attribute| {
        // SAFETY: the device is one of the driver's.
        let value = unsafe { result::device::get_attribute(device, attribute) }?;
        Ok::<_, DriverError>(value.unsigned_abs())
    };
    let block_shared_bytes = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
    let capability = MajorMinor {
        major: attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
        minor: attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
    };
    Ok(DeviceIdentity {
        index,
        name: result::device::get_name(device)?,
        capability,
        limits: DeviceLimits {
            multiprocessors: attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            block_shared_bytes: block_shared_bytes.min(shared_bytes_max),
            shared_bytes: attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)?,
            reserved_shared_bytes: attribute(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK)?,
            resident_threads_max: attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)?,
            resident_blocks_max: attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR)?,
            l2_bytes: attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?,
            clock_khz: attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?,
            has_bit_products: capability < CAPABILITY_WITHOUT_BIT_PRODUCTS,
            pins_read_only: attribute(CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED)? != 0,
        },
        // SAFETY: the device is one of the driver's.
        memory_bytes: unsafe { result::device::total_mem(device) }? as u64,
        pci_bus_id: pci_bus_id(device).unwrap_or_default(),
    })
}

fn pci_bus_id(device: sys::CUdevice) -> Result<String, DriverError> {
    let mut text = [0_u8; 32];
    let length = text.len() as i32;
    // SAFETY: the driver writes at most `length` characters, the last one zero.
    unsafe { sys::cuDeviceGetPCIBusId(text.as_mut_ptr().cast(), length, device) }.result()?;
    Ok(text.iter().take_while(|&&letter| letter != 0).copied().map(char::from).collect())
}
