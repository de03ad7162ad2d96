//! What NVIDIA's management library says of a device, where it is installed. It is a separate
//! library with a version of its own: everything here may be absent.

use nvml_wrapper::{
    Nvml,
    enum_wrappers::device::{Clock, EccCounter, MemoryError, TemperatureSensor},
    error::NvmlError,
};

use super::context::Identity;

/// The management library, if it is there.
pub struct Monitor(Option<Nvml>);

/// What changes while a device works. `None`: not said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Facts {
    /// Clock of the multiprocessors, MHz.
    pub clock_mhz: Option<u32>,
    /// The greatest that the device may use.
    pub clock_max_mhz: Option<u32>,
    /// Clock of the memory, MHz.
    pub memory_clock_mhz: Option<u32>,
    /// Of the die, degrees Celsius.
    pub temperature_c: Option<u32>,
    /// Power drawn, milliwatts.
    pub power_mw: Option<u32>,
    /// Whether memory has error correction switched on.
    pub ecc: Option<bool>,
    /// Errors that could not be corrected since the driver was loaded.
    pub ecc_uncorrected: Option<u64>,
}

impl Monitor {
    /// Opens the library. Where it is absent, nothing is known and nothing fails.
    pub fn open() -> Self {
        let nvml = Nvml::init();
        if let Err(error) = &nvml {
            tracing::debug!(%error, "no management library");
        }
        Self(nvml.ok())
    }

    /// The installed driver's version, such as "580.65.06".
    pub fn driver_version(&self) -> Option<String> {
        self.0.as_ref()?.sys_driver_version().ok()
    }

    /// What is known of a device now.
    pub fn facts(&self, identity: &Identity) -> Facts {
        let device = self.0.as_ref().filter(|_| !identity.bus.is_empty());
        let Some(Ok(device)) = device.map(|nvml| nvml.device_by_pci_bus_id(identity.bus.as_str()))
        else {
            return Facts::default();
        };
        let errors = device.total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile);
        Facts {
            clock_mhz: said(device.clock_info(Clock::SM)),
            clock_max_mhz: said(device.max_clock_info(Clock::SM)),
            memory_clock_mhz: said(device.clock_info(Clock::Memory)),
            temperature_c: said(device.temperature(TemperatureSensor::Gpu)),
            power_mw: said(device.power_usage()),
            ecc: said(device.is_ecc_enabled()).map(|state| state.currently_enabled),
            ecc_uncorrected: said(errors),
        }
    }
}

/// Devices and drivers differ in what they say.
fn said<T>(answer: Result<T, NvmlError>) -> Option<T> {
    answer.ok()
}
