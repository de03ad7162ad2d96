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
use sys::CUfunction_attribute as Attribute;

use super::{
    DeviceContext, DeviceFault, GpuUnavailable, Stream, images,
    parameters::{KernelParameters, PARAMETERS_MAX},
};

/// The first compute capability with programmatic dependent launch (PDL).
const CAPABILITY_PDL: (u32, u32) = (9, 0);

/// Dynamic shared memory that a block gets without opting in.
const SHARED_BYTES_DEFAULT_MAX: u32 = 48 << 10;

/// A module on a device. Clones share it.
#[derive(Clone)]
pub struct KernelModule(Arc<ModuleInner>);

struct ModuleInner {
    context: DeviceContext,
    raw: sys::CUmodule,
    name: &'static str,
}

// SAFETY: modules may be used from every thread; the driver locks.
unsafe impl Send for ModuleInner {}
// SAFETY: see `Send`.
unsafe impl Sync for ModuleInner {}

/// A kernel with parameters `P`, such as `(Ptr<u32>, Ptr<u32>, u32)`.
pub struct Kernel<P> {
    module: KernelModule,
    raw: sys::CUfunction,
    block: BlockShape,
    pdl: bool,
    parameters: PhantomData<fn(P)>,
}

// SAFETY: functions may be used from every thread; the driver locks.
unsafe impl<P> Send for Kernel<P> {}
// SAFETY: see `Send`.
unsafe impl<P> Sync for Kernel<P> {}

/// Launch configuration of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockShape {
    /// Threads per block.
    pub threads: u32,
    /// Bytes of dynamic shared memory per block.
    pub shared_bytes: u32,
}

impl BlockShape {
    /// A block of `threads` threads without dynamic shared memory.
    pub const fn threads(threads: u32) -> Self {
        Self { threads, shared_bytes: 0 }
    }
}

impl KernelModule {
    /// Loads an embedded module by name.
    ///
    /// Errors: `NoKernels`, `NoImageForDevice`, `Device`.
    pub fn load(context: &DeviceContext, name: &str) -> Result<Self, GpuUnavailable> {
        let index = context.identity().index;
        let failed = |fault| GpuUnavailable::Device { index, fault };
        let (name, image) =
            images::images().iter().find(|(held, _)| *held == name).ok_or_else(|| {
                failed(DeviceFault::KernelMismatch {
                    kernel: name.into(),
                    problem: "no such module".into(),
                })
            })?;
        // The emulated driver contains the kernels.
        let emulated;
        let image = if context.driver().is_emulated() {
            emulated = format!("emulated:{name}\0");
            emulated.as_bytes()
        } else {
            image.ok_or(GpuUnavailable::NoKernels)?
        };
        // SAFETY: an image from nvcc, or a zero-terminated name.
        let load = || Ok(unsafe { result::module::load_data(image.as_ptr().cast()) });
        let raw = match context.call("cuModuleLoadData", load).map_err(failed)? {
            Ok(raw) => raw,
            Err(error) if is_unsupported(error) => return Err(no_image(context)),
            Err(error) => {
                return Err(failed(context.report(DeviceFault::driver("cuModuleLoadData", error))));
            }
        };
        Ok(Self(Arc::new(ModuleInner { context: context.clone(), raw, name })))
    }

    /// Looks up a kernel with parameters `P`, to be launched in blocks like `block`.
    ///
    /// Errors: `Kernel` if the name, parameters or block do not match; driver faults.
    pub fn kernel<P: KernelParameters>(
        &self,
        name: &str,
        block: BlockShape,
    ) -> Result<Kernel<P>, DeviceFault> {
        let context = &self.0.context;
        let refuse =
            |problem: String| DeviceFault::KernelMismatch { kernel: name.to_owned(), problem };
        let text = CString::new(name).map_err(|_| refuse("invalid name".into()))?;
        // SAFETY: the module is alive.
        let find = || Ok(unsafe { result::module::get_function(self.0.raw, text) });
        let raw = match context.call("cuModuleGetFunction", find)? {
            Ok(raw) => raw,
            Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_FOUND)) => {
                return Err(refuse(format!("not in module {}", self.0.name)));
            }
            Err(error) => {
                return Err(context.report(DeviceFault::driver("cuModuleGetFunction", error)));
            }
        };
        let module = self.clone();
        let kernel = Kernel { module, raw, block, pdl: false, parameters: PhantomData };
        kernel.check_parameters(P::BYTES).map_err(refuse)?;
        kernel.check_block()?.map_err(refuse)?;
        Ok(kernel)
    }
}

/// True for machine code for other devices and for PTX that the driver cannot compile.
fn is_unsupported(error: DriverError) -> bool {
    use sys::CUresult as Code;
    let codes = [
        Code::CUDA_ERROR_NO_BINARY_FOR_GPU,
        Code::CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
        Code::CUDA_ERROR_INVALID_PTX,
        Code::CUDA_ERROR_INVALID_IMAGE,
        Code::CUDA_ERROR_INVALID_SOURCE,
    ];
    codes.contains(&error.0)
}

fn no_image(context: &DeviceContext) -> GpuUnavailable {
    let identity = context.identity();
    GpuUnavailable::NoImageForDevice {
        device: identity.name.clone(),
        capability: identity.capability,
        archs: images::archs()
            .iter()
            .map(|arch| format!("sm_{arch}"))
            .collect::<Vec<_>>()
            .join(", "),
    }
}

impl<P: KernelParameters> Kernel<P> {
    /// Enables programmatic dependent launch (PDL): blocks start as those of the preceding kernel
    /// in the stream exit, which hides the gap between two kernels. Every thread must call
    /// `await_predecessor` (`kernels/carry.cuh`) before it touches memory. Has no effect if the
    /// device or driver lacks PDL.
    pub fn with_pdl(self) -> Self {
        let context = &self.module.0.context;
        let can = context.identity().capability >= CAPABILITY_PDL
            && context.driver().has(c"cuLaunchKernelEx");
        Self { pdl: can, ..self }
    }

    /// Launches `grid` blocks on `stream`; does nothing if `grid` is 0.
    ///
    /// Errors: driver faults, including errors of earlier work.
    pub fn launch(
        &self,
        stream: &Stream,
        grid: u32,
        given: P::Argument<'_>,
    ) -> Result<(), DeviceFault> {
        if grid == 0 {
            return Ok(());
        }
        let mut words = [0_u64; PARAMETERS_MAX];
        P::pack(given, stream, &mut words)?;
        stream.count_launch();
        let mut places = words.each_mut().map(|word| std::ptr::from_mut(word).cast());
        let BlockShape { threads, shared_bytes } = self.block;
        if self.pdl {
            return self.launch_pdl(stream, grid, &mut places);
        }
        // SAFETY: the function is alive; number and sizes of the parameters match (checked on
        // lookup), and the driver copies them before it returns.
        stream.call("cuLaunchKernel", |stream| unsafe {
            let places = &mut places[..P::BYTES.len()];
            result::launch_kernel(
                self.raw,
                (grid, 1, 1),
                (threads, 1, 1),
                shared_bytes,
                stream,
                places,
            )
        })
    }

    fn launch_pdl(
        &self,
        stream: &Stream,
        grid: u32,
        places: &mut [*mut c_void; PARAMETERS_MAX],
    ) -> Result<(), DeviceFault> {
        let mut attribute = sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
        };
        let BlockShape { threads, shared_bytes } = self.block;
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
            let (places, none) = (places.as_mut_ptr(), std::ptr::null_mut());
            // SAFETY: see `launch`; there is one attribute, and it outlives the call.
            unsafe { sys::cuLaunchKernelEx(&raw const config, self.raw, places, none) }.result()
        })
    }

    fn attribute(&self, attribute: Attribute) -> Result<u32, DeviceFault> {
        // SAFETY: the function is alive.
        let get = || unsafe { result::function::get_function_attribute(self.raw, attribute) };
        Ok(self.module.0.context.call("cuFuncGetAttribute", get)?.unsigned_abs())
    }

    /// Blocks resident on a multiprocessor at a time, by the driver's occupancy calculator; at
    /// least 1.
    ///
    /// Errors: driver faults.
    pub fn resident_blocks(&self) -> Result<u32, DeviceFault> {
        let BlockShape { threads, shared_bytes } = self.block;
        // SAFETY: the function is alive.
        let ask = || unsafe {
            result::occupancy::max_active_block_per_multiprocessor(
                self.raw,
                threads as i32,
                shared_bytes as usize,
            )
        };
        let name = "cuOccupancyMaxActiveBlocksPerMultiprocessor";
        Ok(self.module.0.context.call(name, ask)?.unsigned_abs().max(1))
    }

    /// Registers per thread, for reports.
    ///
    /// Errors: driver faults.
    pub fn registers(&self) -> Result<u32, DeviceFault> {
        self.attribute(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)
    }

    /// Compares the sizes of the compiled kernel's parameters with `expected`. Drivers before CUDA
    /// 12.4 do not report them; then this succeeds.
    fn check_parameters(&self, expected: &[usize]) -> Result<(), String> {
        if !self.module.0.context.driver().has(c"cuFuncGetParamInfo") {
            return Ok(());
        }
        let mut found = Vec::new();
        while found.len() <= PARAMETERS_MAX {
            let (mut offset, mut bytes) = (0, 0);
            // SAFETY: the function is alive; the driver writes two integers.
            let answer =
                unsafe { sys::cuFuncGetParamInfo(self.raw, found.len(), &mut offset, &mut bytes) };
            if answer != sys::CUresult::CUDA_SUCCESS {
                break;
            }
            found.push(bytes);
        }
        let text = || format!("takes parameters of {found:?} bytes, not of {expected:?}");
        if found == expected { Ok(()) } else { Err(text()) }
    }

    /// Checks threads and shared memory of the block, and opts in to large dynamic shared memory.
    fn check_block(&self) -> Result<Result<(), String>, DeviceFault> {
        let context = &self.module.0.context;
        let BlockShape { threads, shared_bytes } = self.block;
        let most = self.attribute(Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?;
        if threads == 0 || threads > most {
            return Ok(Err(format!("blocks of {threads} threads, at most {most}")));
        }
        let fixed = self.attribute(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?;
        let whole = fixed.saturating_add(shared_bytes);
        let most = context.identity().limits.block_shared_bytes;
        if whole > most {
            return Ok(Err(format!("{whole} bytes of shared memory, at most {most}")));
        }
        if shared_bytes > SHARED_BYTES_DEFAULT_MAX {
            let attribute = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            let bytes = shared_bytes as i32;
            // SAFETY: the function is alive.
            let set =
                || unsafe { result::function::set_function_attribute(self.raw, attribute, bytes) };
            context.call("cuFuncSetAttribute", set)?;
        }
        Ok(Ok(()))
    }
}

impl Drop for ModuleInner {
    fn drop(&mut self) {
        let raw = self.raw;
        // SAFETY: loaded in `load`, unloaded once; kernels hold the module.
        let unload = || unsafe { result::module::unload(raw) };
        let _gone = self.context.call("cuModuleUnload", unload);
    }
}
