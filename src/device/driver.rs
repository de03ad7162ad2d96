//! Finds a usable driver before cudarc is used, which panics if there is none.

use std::{
    ffi::{CStr, c_int},
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use cudarc::driver::{result, sys};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use super::{DeviceFault, UnusableDevice, images};

/// Names of the library in the driver's installation and in its development package.
const NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];

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
    #[error(
        "the CUDA driver is too old: it supports CUDA {}.{}, the kernels need {}.{}",
        found.0, found.1, needed.0, needed.1
    )]
    TooOld {
        /// CUDA version that the driver supports, major and minor.
        found: (u32, u32),
        /// CUDA version that the kernels need, major and minor.
        needed: (u32, u32),
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
        "{device} has compute capability {}.{}, but the kernels were compiled for {archs}",
        capability.0, capability.1
    )]
    NoImageForDevice {
        /// The device's name.
        device: String,
        /// Its compute capability.
        capability: (u32, u32),
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
    /// Each wanted device was left out; there is at least one.
    #[error("{}", .0[0].reason)]
    AllLeftOut(Vec<UnusableDevice>),
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

    /// The devices that were wanted and cannot be used, if it came as far as looking at them.
    pub fn left_out(&self) -> &[UnusableDevice] {
        match self {
            Self::AllLeftOut(devices) => devices,
            _ => &[],
        }
    }
}

/// Whether the system shows an NVIDIA GPU: its driver's device files, or a display controller of
/// NVIDIA's on the PCI bus.
fn host_has_gpu() -> bool {
    const NVIDIA: &str = "0x10de";
    const DISPLAY_CLASS: &str = "0x03";
    let devices = fs::read_dir("/sys/bus/pci/devices").into_iter().flatten().flatten();
    let starts =
        |path: PathBuf, start| fs::read_to_string(path).is_ok_and(|text| text.starts_with(start));
    ["/dev/nvidiactl", "/dev/dxg"].iter().any(|path| Path::new(path).exists())
        || devices.map(|device| device.path()).any(|device| {
            starts(device.join("vendor"), NVIDIA) && starts(device.join("class"), DISPLAY_CLASS)
        })
}

/// The process's CUDA driver. There is at most one: cudarc keeps the first one it finds.
pub struct CudaDriver {
    library: Library,
    path: PathBuf,
    version: (u32, u32),
    emulated: bool,
}

static LOADED: Mutex<Option<Arc<CudaDriver>>> = Mutex::new(None);

impl CudaDriver {
    /// Loads the driver from the library at `path`, or the system's.
    ///
    /// Errors: the reason, in a sentence for the operator.
    pub fn load(path: Option<&Path>) -> Result<Arc<Self>, GpuUnavailable> {
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(driver) = loaded.as_ref() {
            let same = path.is_none_or(|path| path == driver.path);
            let other =
                || GpuUnavailable::OtherDriver(path.unwrap_or(&driver.path).display().to_string());
            return if same { Ok(driver.clone()) } else { Err(other()) };
        }
        let (library, path) = match path {
            Some(path) => (open(path)?, path.to_owned()),
            None => {
                let [name, other] = NAMES.map(PathBuf::from);
                match open(&name) {
                    Ok(library) => (library, name),
                    Err(error) => (open(&other).map_err(|_| error)?, other),
                }
            }
        };
        let driver = Arc::new(Self::start(library, path)?);
        *loaded = Some(driver.clone());
        Ok(driver)
    }

    fn start(library: Library, path: PathBuf) -> Result<Self, GpuUnavailable> {
        if !is_used_by_cudarc(&library) {
            return Err(GpuUnavailable::OtherDriver(path.display().to_string()));
        }
        let emulated = has(&library, c"capstan_emulated_driver");
        result::init().map_err(|error| match error.0 {
            sys::CUresult::CUDA_ERROR_NO_DEVICE => GpuUnavailable::NoDevice,
            code => GpuUnavailable::DriverInit(format!("{code:?} ({})", code as u32)),
        })?;
        let mut version: c_int = 0;
        // SAFETY: the driver is loaded; it writes one integer.
        let answer = unsafe { sys::cuDriverGetVersion(&mut version) }.result();
        answer.map_err(|error| GpuUnavailable::DriverInit(format!("{:?}", error.0)))?;
        let version = version.unsigned_abs();
        let version = (version / 1000, version % 1000 / 10);
        let driver = Self { library, path, version, emulated };
        driver.check_version()?;
        Ok(driver)
    }

    /// Kernels compiled by a toolkit run on every driver of its major version.
    fn check_version(&self) -> Result<(), GpuUnavailable> {
        let needed = (images::toolkit().0, 0);
        if !self.emulated && self.version < needed {
            return Err(GpuUnavailable::TooOld { found: self.version, needed });
        }
        Ok(())
    }

    /// The CUDA version that the driver supports, major and minor.
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// Whether this is the project's emulated driver, which runs kernels on the CPU.
    pub fn is_emulated(&self) -> bool {
        self.emulated
    }

    /// Number of devices.
    ///
    /// Errors: `NoDevice` if there is none.
    pub fn device_count(&self) -> Result<u32, GpuUnavailable> {
        match result::device::get_count() {
            Ok(count) if count > 0 => Ok(count.unsigned_abs()),
            Ok(_) => Err(GpuUnavailable::NoDevice),
            Err(error) => Err(GpuUnavailable::DriverInit(format!("{:?}", error.0))),
        }
    }

    /// Whether the driver has a function; older drivers lack some.
    pub(super) fn has(&self, name: &CStr) -> bool {
        has(&self.library, name)
    }
}

fn open(path: &Path) -> Result<Library, GpuUnavailable> {
    // SAFETY: the library is the CUDA driver or the operator's replacement for it.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) };
    library.map_err(|error| {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        GpuUnavailable::NoDriver(cause.unwrap_or_else(|| error.to_string()))
    })
}

/// Whether cudarc, which finds the library by name, resolves to this one.
fn is_used_by_cudarc(library: &Library) -> bool {
    type Init = unsafe extern "C" fn(u32) -> sys::CUresult;
    // SAFETY: nothing is called; the symbols are compared as addresses.
    unsafe {
        let Ok(own) = library.get::<Init>(b"cuInit\0") else { return false };
        sys::is_culib_present()
            && sys::culib().get::<Init>(b"cuInit\0").is_ok_and(|its| *its as usize == *own as usize)
    }
}

fn has(library: &Library, name: &CStr) -> bool {
    // SAFETY: the symbol is looked up but not used.
    unsafe { library.get::<*const u8>(name.to_bytes_with_nul()) }.is_ok()
}
