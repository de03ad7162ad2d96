//! Readings from NVIDIA's management library (NVML). It is a separate library with its own version,
//! and devices and drivers differ in which readings they support: each may be `None`.

use nvml_wrapper::{
    Device, Nvml,
    enum_wrappers::device::{Clock, EccCounter, MemoryError, TemperatureSensor},
    error::NvmlError,
};

use super::DeviceIdentity;

pub struct NvmlMonitor(Option<Nvml>);

/// The sensors of one device. `GpuInfo` of the engines says what their readings mean.
pub struct GpuSensors<'a>(Option<Device<'a>>);

impl NvmlMonitor {
    /// Loads the library. Without it, every reading is `None`.
    pub fn open() -> Self {
        let nvml = Nvml::init();
        if let Err(error) = &nvml {
            tracing::debug!(%error, "NVML is not available");
        }
        Self(nvml.ok())
    }

    /// The installed driver's version, such as "580.65.06".
    pub fn driver_version(&self) -> Option<String> {
        self.0.as_ref()?.sys_driver_version().ok()
    }

    pub fn sensors(&self, identity: &DeviceIdentity) -> GpuSensors<'_> {
        let id = identity.pci_bus_id.as_str();
        let nvml = self.0.as_ref().filter(|_| !id.is_empty());
        GpuSensors(nvml.and_then(|nvml| nvml.device_by_pci_bus_id(id).ok()))
    }
}

impl GpuSensors<'_> {
    fn read<T>(&self, reading: impl FnOnce(&Device<'_>) -> Result<T, NvmlError>) -> Option<T> {
        reading(self.0.as_ref()?).ok()
    }

    pub fn clock_mhz(&self) -> Option<u32> {
        self.read(|device| device.clock_info(Clock::SM))
    }

    pub fn clock_max_mhz(&self) -> Option<u32> {
        self.read(|device| device.max_clock_info(Clock::SM))
    }

    pub fn memory_clock_mhz(&self) -> Option<u32> {
        self.read(|device| device.clock_info(Clock::Memory))
    }

    pub fn temperature_c(&self) -> Option<u32> {
        self.read(|device| device.temperature(TemperatureSensor::Gpu))
    }

    pub fn power_mw(&self) -> Option<u32> {
        self.read(|device| device.power_usage())
    }

    pub fn is_ecc_enabled(&self) -> Option<bool> {
        self.read(|device| Ok(device.is_ecc_enabled()?.currently_enabled))
    }

    pub fn ecc_uncorrected(&self) -> Option<u64> {
        self.read(|device| device.total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile))
    }
}
