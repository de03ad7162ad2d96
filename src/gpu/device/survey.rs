//! What the driver says of its devices, without opening them: a daemon may be using them.

use std::path::Path;

use cudarc::driver::result;

use super::{
    CudaDriver, DeviceFault, DeviceIdentity, GpuUnavailable, MajorMinor, NvmlMonitor,
    context::identity,
};

/// The installed driver and its devices.
pub struct DriverSurvey {
    /// The CUDA version that the driver supports.
    pub version: MajorMinor,
    /// The driver's own version, such as "580.65.06", if NVML reports it.
    pub package_version: Option<String>,
    pub is_emulated: bool,
    pub gpus: Vec<SurveyedGpu>,
}

/// A device that nobody opened.
pub struct SurveyedGpu {
    pub identity: DeviceIdentity,
    pub temperature_c: Option<u32>,
    pub ecc_uncorrected: Option<u64>,
}

/// Loads the driver at `path`, or the system's, and lists its devices.
///
/// Errors: there is no driver or no device, or a device does not answer.
pub fn survey(path: Option<&Path>) -> Result<DriverSurvey, GpuUnavailable> {
    let driver = CudaDriver::load(path)?;
    let nvml = NvmlMonitor::open();
    let device = |index: u32| {
        let read = result::device::get(index as i32)
            .and_then(|device| identity(device, index, u32::MAX))
            .map_err(|error| DeviceFault::from_driver("cuDeviceGetAttribute", error));
        let identity = read.map_err(|fault| GpuUnavailable::Device { index, fault })?;
        let sensors = nvml.sensors(&identity);
        let (temperature_c, ecc_uncorrected) = (sensors.temperature_c(), sensors.ecc_uncorrected());
        Ok(SurveyedGpu { identity, temperature_c, ecc_uncorrected })
    };
    let gpus = (0..driver.device_count()?).map(device).collect::<Result<_, _>>()?;
    Ok(DriverSurvey {
        version: driver.version(),
        package_version: nvml.driver_version(),
        is_emulated: driver.is_emulated(),
        gpus,
    })
}
