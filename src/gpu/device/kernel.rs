//! Modules and typed kernels. A kernel's name, parameter sizes and block are checked once, on
//! lookup; its type then determines the arguments of a launch.
//!
//! Launching is safe: kernels receive only device addresses and integers, so they cannot reach
//! memory that Rust manages. Their effect on device memory is covered by the tests of `kernels/`
//! and by the self-test.

use std::{
    ffi::{CString, c_void},
    marker::PhantomData,
    sync::Arc,
};

use cudarc::driver::{DriverError, result, sys};
use sys::{CUfunction_attribute as Attribute, CUresult as Code};

use super::{
    BlockShape, DeviceContext, DeviceFault, GpuUnavailable, MajorMinor, Stream,
    driver::DriverHandle,
    images::{self, KernelImage},
    parameters::{KernelParameters, PARAMETERS_MAX},
};

/// The first compute capability with programmatic dependent launch (PDL).
const CAPABILITY_PDL: MajorMinor = MajorMinor { major: 9, minor: 0 };

/// Dynamic shared memory that a block gets without opting in.
const SHARED_BYTES_DEFAULT_MAX: u32 = 48 << 10;

/// A module on a device. Clones share it.
#[derive(Clone)]
pub struct KernelModule(Arc<ModuleInner>);

struct ModuleInner {
    context: DeviceContext,
    module: DriverHandle<sys::CUmodule>,
    name: &'static str,
}

/// A kernel with parameters `P`, such as `(DevicePtr<u32>, DevicePtr<u32>, u32)`.
pub struct Kernel<P> {
    function: KernelFunction,
    parameters: PhantomData<fn(P)>,
}

/// A kernel whose parameters are checked. Compiled once, not for each type of [`Kernel`].
struct KernelFunction {
    module: KernelModule,
    handle: DriverHandle<sys::CUfunction>,
    block: BlockShape,
    has_pdl: bool,
}

impl KernelModule {
    /// Loads an embedded module by name.
    pub fn load(context: &DeviceContext, name: &str) -> Result<Self, GpuUnavailable> {
        let index = context.identity().index;
        let failed = |fault| GpuUnavailable::Device { index, fault };
        let Some(KernelImage { name, code }) = images::image(name) else {
            return Err(failed(DeviceFault::mismatch(name, "no such module")));
        };
        // The emulated driver contains the kernels.
        let emulated;
        let image = if context.driver().is_emulated() {
            emulated = format!("emulated:{name}\0");
            emulated.as_bytes()
        } else {
            code.ok_or(GpuUnavailable::NoKernels)?
        };
        // SAFETY: an image from nvcc, or a zero-terminated name.
        let load = || match unsafe { result::module::load_data(image.as_ptr().cast()) } {
            // Machine code for other devices, or PTX that the driver cannot compile.
            Err(DriverError(
                Code::CUDA_ERROR_NO_BINARY_FOR_GPU
                | Code::CUDA_ERROR_UNSUPPORTED_PTX_VERSION
                | Code::CUDA_ERROR_INVALID_PTX
                | Code::CUDA_ERROR_INVALID_IMAGE
                | Code::CUDA_ERROR_INVALID_SOURCE,
            )) => Ok(None),
            loaded => loaded.map(Some),
        };
        let Some(module) = context.call("cuModuleLoadData", load).map_err(failed)? else {
            let archs: Vec<_> = images::archs().iter().map(|arch| format!("sm_{arch}")).collect();
            return Err(GpuUnavailable::NoImageForDevice {
                device: context.identity().name.clone(),
                capability: context.identity().capability,
                archs: archs.join(", "),
            });
        };
        let module = DriverHandle(module);
        Ok(Self(Arc::new(ModuleInner { context: context.clone(), module, name })))
    }

    /// Looks up a kernel with parameters `P`, to be launched in blocks like `block`.
    ///
    /// Errors: `KernelMismatch` if the name, parameters or block do not match; driver faults.
    pub fn kernel<P: KernelParameters>(
        &self,
        name: &str,
        block: BlockShape,
    ) -> Result<Kernel<P>, DeviceFault> {
        let function = self.function(name, block, P::BYTES)?;
        Ok(Kernel { function, parameters: PhantomData })
    }

    /// Looks up a kernel with parameters of `parameter_bytes`.
    fn function(
        &self,
        name: &str,
        block: BlockShape,
        parameter_bytes: &[usize],
    ) -> Result<KernelFunction, DeviceFault> {
        let context = &self.0.context;
        let mismatch = |problem: String| DeviceFault::mismatch(name, problem);
        let c_name = CString::new(name).map_err(|_| mismatch("invalid name".into()))?;
        // SAFETY: the module is alive.
        let find = || match unsafe { result::module::get_function(self.0.module.0, c_name) } {
            Err(DriverError(Code::CUDA_ERROR_NOT_FOUND)) => Ok(None),
            found => found.map(Some),
        };
        let found = context.call("cuModuleGetFunction", find)?;
        let handle = found.ok_or_else(|| mismatch(format!("not in module {}", self.0.name)))?;
        let handle = DriverHandle(handle);
        let function = KernelFunction { module: self.clone(), handle, block, has_pdl: false };
        function.check_parameters(parameter_bytes).map_err(mismatch)?;
        function.check_block(mismatch)?;
        Ok(function)
    }
}

impl<P: KernelParameters> Kernel<P> {
    /// Enables programmatic dependent launch (PDL): blocks start as those of the preceding kernel
    /// in the stream exit, which hides the gap between two kernels. Every thread must call
    /// `await_predecessor` (`kernels/carry.cuh`) before it touches memory. Has no effect if the
    /// device lacks PDL.
    pub fn with_pdl(mut self) -> Self {
        let context = &self.function.module.0.context;
        self.function.has_pdl = context.identity().capability >= CAPABILITY_PDL;
        self
    }

    /// Launches `grid` blocks on `stream`; does nothing if `grid` is 0.
    pub fn launch(
        &self,
        stream: &Stream,
        grid: u32,
        arguments: P::Argument<'_>,
    ) -> Result<(), DeviceFault> {
        if grid == 0 {
            return Ok(());
        }
        let mut packed = P::pack(arguments, stream)?;
        self.function.launch(stream, grid, &mut packed.addresses()[..P::BYTES.len()])
    }

    /// Blocks resident on a multiprocessor at a time, by the driver's occupancy calculator; at
    /// least 1.
    pub fn resident_blocks(&self) -> Result<u32, DeviceFault> {
        self.function.resident_blocks()
    }
}

impl KernelFunction {
    /// `arguments` holds one address for each parameter of the kernel.
    fn launch(
        &self,
        stream: &Stream,
        grid: u32,
        arguments: &mut [*mut c_void],
    ) -> Result<(), DeviceFault> {
        stream.count_launch();
        let BlockShape { threads, shared_bytes } = self.block;
        if !self.has_pdl {
            // SAFETY: the function is alive; number and sizes of the parameters match (checked on
            // lookup), and the driver copies them before it returns.
            return stream.call("cuLaunchKernel", |stream| unsafe {
                let (grid, block) = ((grid, 1, 1), (threads, 1, 1));
                let handle = self.handle.0;
                result::launch_kernel(handle, grid, block, shared_bytes, stream, arguments)
            });
        }
        let mut attribute = sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
        };
        stream.call("cuLaunchKernelEx", |stream| {
            let config = sys::CUlaunchConfig {
                gridDimX: grid,
                gridDimY: 1,
                gridDimZ: 1,
                blockDimX: threads,
                blockDimY: 1,
                blockDimZ: 1,
                sharedMemBytes: shared_bytes,
                hStream: stream,
                attrs: &raw mut attribute,
                numAttrs: 1,
            };
            let arguments = arguments.as_mut_ptr();
            let extra = std::ptr::null_mut();
            // SAFETY: see above; there is one attribute, and it outlives the call.
            unsafe { sys::cuLaunchKernelEx(&raw const config, self.handle.0, arguments, extra) }
                .result()
        })
    }

    fn attribute(&self, attribute: Attribute) -> Result<u32, DeviceFault> {
        // SAFETY: the function is alive.
        let get = || unsafe { result::function::get_function_attribute(self.handle.0, attribute) };
        Ok(self.module.0.context.call("cuFuncGetAttribute", get)?.unsigned_abs())
    }

    fn resident_blocks(&self) -> Result<u32, DeviceFault> {
        let BlockShape { threads, shared_bytes } = self.block;
        // SAFETY: the function is alive.
        let query = || unsafe {
            result::occupancy::max_active_block_per_multiprocessor(
                self.handle.0,
                threads as i32,
                shared_bytes as usize,
            )
        };
        let name = "cuOccupancyMaxActiveBlocksPerMultiprocessor";
        Ok(self.module.0.context.call(name, query)?.unsigned_abs().max(1))
    }

    /// Compares the sizes of the compiled kernel's parameters with `expected`.
    fn check_parameters(&self, expected: &[usize]) -> Result<(), String> {
        let mut found = Vec::new();
        while found.len() <= PARAMETERS_MAX {
            let mut offset = 0;
            let mut bytes = 0;
            // SAFETY: the function is alive; the driver writes two integers.
            let answer = unsafe {
                sys::cuFuncGetParamInfo(self.handle.0, found.len(), &mut offset, &mut bytes)
            };
            if answer != Code::CUDA_SUCCESS {
                break;
            }
            found.push(bytes);
        }
        if found == expected {
            return Ok(());
        }
        Err(format!("takes parameters of {found:?} bytes, not of {expected:?}"))
    }

    /// Checks threads and shared memory of the block, and opts in to large dynamic shared memory.
    fn check_block(&self, mismatch: impl Fn(String) -> DeviceFault) -> Result<(), DeviceFault> {
        let context = &self.module.0.context;
        let BlockShape { threads, shared_bytes } = self.block;
        let threads_max = self.attribute(Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?;
        if threads == 0 || threads > threads_max {
            return Err(mismatch(format!("blocks of {threads} threads, at most {threads_max}")));
        }
        let static_bytes = self.attribute(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?;
        let total = static_bytes.saturating_add(shared_bytes);
        let total_max = context.identity().limits.block_shared_bytes;
        if total > total_max {
            let problem = format!("{total} bytes of shared memory, at most {total_max}");
            return Err(mismatch(problem));
        }
        if shared_bytes > SHARED_BYTES_DEFAULT_MAX {
            let attribute = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            let bytes = shared_bytes as i32;
            // SAFETY: the function is alive.
            let set = || unsafe {
                result::function::set_function_attribute(self.handle.0, attribute, bytes)
            };
            context.call("cuFuncSetAttribute", set)?;
        }
        Ok(())
    }
}

impl Drop for ModuleInner {
    fn drop(&mut self) {
        // SAFETY: loaded in `load`, unloaded once; kernels hold the module.
        let unload = || unsafe { result::module::unload(self.module.0) };
        let _unloaded = self.context.call("cuModuleUnload", unload);
    }
}
