//! NVIDIA GPUs. This is the only module that knows CUDA.
//!
//! [`CudaDriver`] finds the driver, [`open`] opens devices. A [`Gpu`] is an open device with an
//! [`DeviceArena`] of device memory and a [`StagingRing`] of pinned host memory;
//! [`DeviceContext::pin`] pins more, permanently. [`KernelModule`] and [`Kernel`] are code on a
//! device, [`Stream`] and [`Event`] order its work.
//!
//! Failures are [`DeviceFault`]s; their [`FaultClass`] tells whether the device is still usable.
//! Any fault not known to be harmless disables the device, and the process is expected to exit: see
//! `fault.rs`.
#![allow(unsafe_code)]

mod arena;
mod context;
mod driver;
mod fault;
mod free_list;
mod images;
mod kernel;
mod limits;
mod nvml;
mod open;
mod parameters;
mod pinned_copy;
mod ring;
mod self_test;
mod stream;

pub use arena::{ALIGN, DeviceArena, DeviceLease, DeviceSlice};
pub use context::{DeviceContext, DeviceIdentity, FaultHandler};
pub use driver::{CudaDriver, GpuUnavailable};
pub use fault::{DeviceFault, FaultClass, exit_without_handlers};
pub use images::{archs, images};
pub use kernel::{BlockShape, Kernel, KernelModule};
pub use limits::DeviceLimits;
pub use nvml::{GpuReadings, NvmlMonitor};
pub use open::{DeviceSelection, Gpu, OpenDevices, OpenOptions, UnusableDevice, open};
pub use parameters::{DevicePtr, KernelParameter, KernelParameters};
pub use pinned_copy::{receive, send};
pub use ring::{CopySession, RingUpload, StagingRing};
pub use stream::{Event, Stream};
