//! Reasons why no GPU is used, in sentences for the operator.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{DeviceFault, MajorMinor};

/// Why no GPU is used, in a sentence for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GpuUnavailable {
    /// The library is missing or cannot be loaded.
    #[error("no CUDA driver: {0}")]
    NoDriver(String),
    /// The library is not a CUDA driver, or cudarc resolves to another one.
    #[error(
        "{0} cannot be used as the CUDA driver: it is not one, or this process uses another one"
    )]
    OtherDriver(String),
    /// The driver failed to initialize.
    #[error("the CUDA driver failed to initialize: {0}")]
    DriverInit(String),
    /// The driver is older than the kernels.
    #[error("the CUDA driver is too old: it supports CUDA {found}, the kernels need {needed}")]
    TooOld {
        /// CUDA version that the driver supports.
        found: MajorMinor,
        /// CUDA version that the kernels need.
        needed: MajorMinor,
    },
    /// The driver reports no device.
    #[error("the CUDA driver reports no device")]
    NoDevice,
    /// The configuration names a device that does not exist.
    #[error("CUDA device {index} does not exist: the driver reports {count}")]
    NoSuchDevice {
        /// The configured device number.
        index: u32,
        /// Number of devices.
        count: u32,
    },
    /// This build has no kernels.
    #[error("a CUDA device is present, but this build has no kernels: build on a host with nvcc")]
    NoKernels,
    /// The kernels are for other devices.
    #[error(
        "{device} has compute capability {capability}, but the kernels were compiled for {archs}"
    )]
    NoImageForDevice {
        /// The device's name.
        device: String,
        /// Its compute capability.
        capability: MajorMinor,
        /// Architectures that the kernels were compiled for.
        archs: String,
    },
    /// A device failed while it was opened or tested.
    #[error("device {index}: {fault}")]
    Device {
        /// Device number in the driver's order.
        index: u32,
        /// The failure.
        fault: DeviceFault,
    },
    /// No requested device can be used; there is at least one.
    #[error("{}", .0[0].reason)]
    AllLeftOut(Vec<UnusableDevice>),
}

/// A device that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusableDevice {
    /// Device number in the driver's order.
    pub index: u32,
    /// The reason, in a sentence that names the device.
    pub reason: GpuUnavailable,
}

impl GpuUnavailable {
    /// Whether this host has a GPU that could be made usable, which operators want to know. A host
    /// without a GPU deserves no warning.
    pub fn is_on_a_gpu_host(&self) -> bool {
        match self {
            Self::NoDriver(_) | Self::NoDevice => host_has_gpu(),
            _ => true,
        }
    }

    /// The requested devices that cannot be used; empty if the driver itself cannot be used.
    pub fn left_out(&self) -> &[UnusableDevice] {
        match self {
            Self::AllLeftOut(devices) => devices,
            _ => &[],
        }
    }
}

/// Whether the system shows an NVIDIA GPU: device files of its driver, or a display controller with
/// NVIDIA's vendor id on the PCI bus.
fn host_has_gpu() -> bool {
    const NVIDIA: &str = "0x10de";
    const DISPLAY_CLASS: &str = "0x03";
    let devices = fs::read_dir("/sys/bus/pci/devices").into_iter().flatten().flatten();
    let starts_with =
        |path: PathBuf, start| fs::read_to_string(path).is_ok_and(|text| text.starts_with(start));
    ["/dev/nvidiactl", "/dev/dxg"].iter().any(|path| Path::new(path).exists())
        || devices.map(|device| device.path()).any(|device| {
            starts_with(device.join("vendor"), NVIDIA)
                && starts_with(device.join("class"), DISPLAY_CLASS)
        })
}
