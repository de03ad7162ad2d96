//! The emulated driver behind cudarc, for one test at a time.

use std::{
    ffi::{CString, c_void},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use cudarc::driver::{CudaContext, CudaStream, DriverError, result, sys};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW, Symbol};

use crate::emulated;

pub const DEVICES: usize = 3;
pub const MEMORY_MIB: usize = 64;
/// Seeds of schedules under which results must be right.
pub const SEEDS: [u64; 4] = [0, 1, 2, 3];

type DriverResult<T> = Result<T, DriverError>;

/// The folder of the kernels of these tests.
pub fn kernels() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/emulated/kernels")
}

pub struct DriverControls {
    reset: Symbol<unsafe extern "C" fn()>,
    seed: Symbol<unsafe extern "C" fn(u64)>,
    fault: Symbol<unsafe extern "C" fn(*const std::ffi::c_char)>,
    device: Symbol<unsafe extern "C" fn(*const std::ffi::c_char) -> std::ffi::c_int>,
}

/// Loads the library so that cudarc finds it by name. Sets `EMU_DEVICES` and `EMU_MEMORY_MIB`
/// unless the environment sets `EMU_DEVICE`.
pub fn controls() -> &'static DriverControls {
    static CONTROLS: OnceLock<DriverControls> = OnceLock::new();
    CONTROLS.get_or_init(|| {
        let path = std::env::var_os(emulated::SETTING).map(PathBuf::from);
        let path = path.unwrap_or_else(|| emulated::build("probes", &kernels(), &[]));
        // SAFETY: runs once, under the lock; nothing else reads or writes the environment.
        #[allow(clippy::disallowed_methods)]
        if std::env::var_os("EMU_DEVICE").is_none() {
            unsafe {
                std::env::set_var("EMU_DEVICES", DEVICES.to_string());
                std::env::set_var("EMU_MEMORY_MIB", MEMORY_MIB.to_string());
            }
        }
        // SAFETY: the types match kernels/host/driver/faults.cpp; the library stays loaded.
        unsafe {
            let library = Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL).unwrap();
            let controls = DriverControls {
                reset: library.get(b"capstan_emulated_reset\0").unwrap(),
                seed: library.get(b"capstan_emulated_seed\0").unwrap(),
                fault: library.get(b"capstan_emulated_fault\0").unwrap(),
                device: library.get(b"capstan_emulated_device\0").unwrap(),
            };
            let _kept = std::mem::ManuallyDrop::new(library);
            controls
        }
    })
}

/// Device 0, with its context current in this thread. Nothing else uses the driver meanwhile.
pub struct EmulatedGpu {
    pub context: Arc<CudaContext>,
    _exclusive: MutexGuard<'static, ()>,
}

impl EmulatedGpu {
    pub fn new(seed: u64) -> Self {
        Self::of("", seed)
    }

    /// Like [`Self::new`], with the presets that `names` lists in the syntax of `EMU_DEVICE`.
    pub fn of(names: &str, seed: u64) -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let names = CString::new(names).unwrap();
        // SAFETY: no call is under way; the names are read during the call only.
        unsafe {
            assert_eq!((controls().device)(names.as_ptr()), 1, "{names:?}");
            (controls().seed)(seed);
        }
        let context = CudaContext::new(0).unwrap();
        Self { context, _exclusive: turn }
    }

    /// Whether the driver knows all presets that `names` lists.
    pub fn knows(&self, names: &str) -> bool {
        let names = CString::new(names).unwrap();
        // SAFETY: no call is under way; the names are read during the call only.
        unsafe { (controls().device)(names.as_ptr()) == 1 }
    }

    /// Injects faults, in the syntax of `EMU_FAULT`.
    pub fn fault(&self, specification: &str) {
        let text = CString::new(specification).unwrap();
        // SAFETY: the text is read during the call only.
        unsafe { (controls().fault)(text.as_ptr()) }
    }

    pub fn reset(&self) {
        // SAFETY: no calls but hanging ones are under way.
        unsafe { (controls().reset)() }
    }

    pub fn stream(&self) -> Arc<CudaStream> {
        self.context.new_stream().unwrap()
    }

    pub fn words(&self, count: usize) -> DeviceWords {
        DeviceWords::new(count).unwrap()
    }

    pub fn kernel(&self, module: &str, name: &str) -> RawKernel {
        RawKernel(kernel(module, name).unwrap())
    }
}

pub fn kernel(module: &str, name: &str) -> DriverResult<sys::CUfunction> {
    let image = CString::new(format!("emulated:{module}")).unwrap();
    // SAFETY: the image is a zero-terminated string, as this driver expects.
    unsafe {
        let module = result::module::load_data(image.as_ptr().cast::<c_void>())?;
        result::module::get_function(module, CString::new(name).unwrap())
    }
}

/// An array of 32-bit words in device memory, freed by [`Self::free`] or the next reset.
#[derive(Clone, Copy)]
pub struct DeviceWords {
    pub address: sys::CUdeviceptr,
    pub count: usize,
}

impl DeviceWords {
    pub fn new(count: usize) -> DriverResult<Self> {
        // SAFETY: reads of uninitialised memory see poison, not undefined values.
        let at = unsafe { result::malloc_sync(4 * count) }?;
        Ok(Self { address: at, count })
    }

    pub fn write(&self, stream: &CudaStream, words: &[u32]) -> DriverResult<()> {
        // SAFETY: the driver checks the range and copies pageable memory at the call; pinned memory
        // outlives the stream's work in these tests.
        unsafe { result::memcpy_htod_async(self.address, words, stream.cu_stream()) }
    }

    pub fn read(&self, stream: &CudaStream) -> DriverResult<Vec<u32>> {
        let mut words = vec![0; self.count];
        // SAFETY: pageable memory is written before the call returns.
        unsafe { result::memcpy_dtoh_async(&mut words, self.address, stream.cu_stream()) }?;
        Ok(words)
    }

    pub fn zero(&self, stream: &CudaStream) -> DriverResult<()> {
        // SAFETY: the driver checks the range.
        unsafe { result::memset_d8_async(self.address, 0, 4 * self.count, stream.cu_stream()) }
    }

    pub fn free(self) -> DriverResult<()> {
        // SAFETY: the driver detects work that still uses it.
        unsafe { result::free_sync(self.address) }
    }
}

#[derive(Clone, Copy)]
pub struct RawKernel(pub sys::CUfunction);

impl RawKernel {
    /// Launches the kernel. Each argument must have the size that the kernel declares.
    pub fn launch(
        &self,
        stream: &CudaStream,
        (grid, block, shared): (u32, u32, u32),
        arguments: &mut [*mut c_void],
    ) -> DriverResult<()> {
        let (grid, block) = ((grid, 1, 1), (block, 1, 1));
        let stream = stream.cu_stream();
        // SAFETY: the emulation checks pointers; the arguments match the kernel's parameters.
        unsafe { result::launch_kernel(self.0, grid, block, shared, stream, arguments) }
    }

    /// Like [`Self::launch`], but the kernel may start before its predecessor ends.
    pub fn launch_early(
        &self,
        stream: &CudaStream,
        (grid, block, shared): (u32, u32, u32),
        arguments: &mut [*mut c_void],
    ) -> DriverResult<()> {
        let mut attribute = sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
        };
        let config = sys::CUlaunchConfig {
            gridDimX: grid,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: block,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: shared,
            hStream: stream.cu_stream(),
            attrs: &raw mut attribute,
            numAttrs: 1,
        };
        let (arguments, none) = (arguments.as_mut_ptr(), std::ptr::null_mut());
        // SAFETY: as in `launch`; the attribute outlives the call.
        unsafe { sys::cuLaunchKernelEx(&raw const config, self.0, arguments, none) }.result()
    }
}

/// The addresses of a launch's arguments.
#[macro_export]
macro_rules! arguments {
    ($($argument:expr),*) => {
        &mut [$(std::ptr::from_ref(&$argument).cast_mut().cast::<std::ffi::c_void>()),*]
    };
}

/// The driver's error code; 0 if the call succeeded.
pub fn error_code<T>(answer: &DriverResult<T>) -> u32 {
    answer.as_ref().err().map_or(0, |error| error.0 as u32)
}
