//! Device facts from NVIDIA's management library (NVML). It is a separate library with its own
//! version, and every value may be absent.

use nvml_wrapper::{
    Nvml,
    enum_wrappers::device::{Clock, EccCounter, MemoryError, TemperatureSensor},
    error::NvmlError,
};

use super::context::DeviceIdentity;

/// The management library, if it is installed.
pub struct NvmlMonitor(Option<Nvml>);

/// Readings that change while a device works; `None` if not reported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GpuReadings {
    /// Clock of the multiprocessors, MHz.
    pub clock_mhz: Option<u32>,
    /// Maximum clock of the multiprocessors, MHz.
    pub clock_max_mhz: Option<u32>,
    /// Clock of the memory, MHz.
    pub memory_clock_mhz: Option<u32>,
    /// Die temperature, degrees Celsius.
    pub temperature_c: Option<u32>,
    /// Power drawn, milliwatts.
    pub power_mw: Option<u32>,
    /// Whether memory error correction is enabled.
    pub ecc: Option<bool>,
    /// Uncorrected memory errors since the driver was loaded.
    pub ecc_uncorrected: Option<u64>,
}

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

    /// Current readings of a device.
    pub fn facts(&self, identity: &DeviceIdentity) -> GpuReadings {
        let device = self.0.as_ref().filter(|_| !identity.pci_bus_id.is_empty());
        let Some(Ok(device)) =
            device.map(|nvml| nvml.device_by_pci_bus_id(identity.pci_bus_id.as_str()))
        else {
            return GpuReadings::default();
        };
        let errors = device.total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile);
        GpuReadings {
            clock_mhz: reported(device.clock_info(Clock::SM)),
            clock_max_mhz: reported(device.max_clock_info(Clock::SM)),
            memory_clock_mhz: reported(device.clock_info(Clock::Memory)),
            temperature_c: reported(device.temperature(TemperatureSensor::Gpu)),
            power_mw: reported(device.power_usage()),
            ecc: reported(device.is_ecc_enabled()).map(|state| state.currently_enabled),
            ecc_uncorrected: reported(errors),
        }
    }
}

/// Devices and drivers differ in which readings they support.
fn reported<T>(answer: Result<T, NvmlError>) -> Option<T> {
    answer.ok()
}
