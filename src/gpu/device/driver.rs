//! Finds a usable driver before cudarc is used, which panics if there is none.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use cudarc::driver::{DriverError, result, sys};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use parking_lot::Mutex;

use super::{GpuUnavailable, MajorMinor, images};

/// A driver object, such as a stream.
pub(super) struct DriverHandle<H>(pub H);

// SAFETY: driver objects may be used from every thread; the driver locks.
unsafe impl<H> Send for DriverHandle<H> {}
// SAFETY: see `Send`.
unsafe impl<H> Sync for DriverHandle<H> {}

/// The process's CUDA driver. There is at most one: cudarc keeps the first one it finds.
pub struct CudaDriver {
    /// Keeps the driver loaded.
    _library: Library,
    path: PathBuf,
    version: MajorMinor,
    is_emulated: bool,
}

static LOADED: Mutex<Option<Arc<CudaDriver>>> = Mutex::new(None);

impl CudaDriver {
    /// Loads the driver from the library at `path`, or the system's.
    pub fn load(path: Option<&Path>) -> Result<Arc<Self>, GpuUnavailable> {
        let mut loaded = LOADED.lock();
        if let Some(driver) = loaded.as_ref() {
            return match path.filter(|path| *path != driver.path) {
                Some(other) => Err(GpuUnavailable::OtherDriver(other.display().to_string())),
                None => Ok(driver.clone()),
            };
        }
        // In the driver's installation, and in its development package.
        let [name, development_name] = ["libcuda.so.1", "libcuda.so"].map(Path::new);
        let (library, path) = match path {
            Some(path) => (open(path)?, path),
            None => match open(name) {
                Ok(library) => (library, name),
                Err(error) => (open(development_name).map_err(|_| error)?, development_name),
            },
        };
        let driver = Arc::new(Self::start(library, path.to_owned())?);
        *loaded = Some(driver.clone());
        Ok(driver)
    }

    fn start(library: Library, path: PathBuf) -> Result<Self, GpuUnavailable> {
        if !is_used_by_cudarc(&library) {
            return Err(GpuUnavailable::OtherDriver(path.display().to_string()));
        }
        // SAFETY: the symbol is looked up but not used.
        let is_emulated = unsafe { library.get::<*const u8>(b"capstan_emulated_driver\0") }.is_ok();
        result::init().map_err(|error| match error.0 {
            sys::CUresult::CUDA_ERROR_NO_DEVICE => GpuUnavailable::NoDevice,
            code => GpuUnavailable::DriverInit(format!("{code:?} ({})", code as u32)),
        })?;
        let mut version = 0;
        // SAFETY: the driver is loaded; it writes one integer.
        unsafe { sys::cuDriverGetVersion(&mut version) }.result().map_err(init_failed)?;
        let version = version.unsigned_abs();
        let version = MajorMinor { major: version / 1000, minor: version % 1000 / 10 };
        // Kernels compiled by a toolkit run on every driver of its major version.
        let needed = MajorMinor { minor: 0, ..images::toolkit() };
        if !is_emulated && version < needed {
            return Err(GpuUnavailable::TooOld { found: version, needed });
        }
        Ok(Self { _library: library, path, version, is_emulated })
    }

    /// The CUDA version that the driver supports.
    pub fn version(&self) -> MajorMinor {
        self.version
    }

    /// Whether this is the project's emulated driver, which runs kernels on the CPU.
    pub fn is_emulated(&self) -> bool {
        self.is_emulated
    }

    /// The number of devices, at least 1.
    pub fn device_count(&self) -> Result<u32, GpuUnavailable> {
        match result::device::get_count().map_err(init_failed)? {
            count if count > 0 => Ok(count.unsigned_abs()),
            _ => Err(GpuUnavailable::NoDevice),
        }
    }
}

fn init_failed(error: DriverError) -> GpuUnavailable {
    GpuUnavailable::DriverInit(format!("{:?}", error.0))
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
        let Ok(init) = library.get::<Init>(b"cuInit\0") else { return false };
        sys::is_culib_present()
            && sys::culib()
                .get::<Init>(b"cuInit\0")
                .is_ok_and(|cudarc_init| *cudarc_init as usize == *init as usize)
    }
}
