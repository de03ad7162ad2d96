//! NVIDIA GPUs. This is the only module that knows CUDA.
//!
//! [`CudaDriver`] finds the driver, `survey` lists its devices, [`open`] opens devices. A [`Gpu`]
//! is an open device with a [`DeviceArena`] of device memory and a [`StagingRing`] of pinned host
//! memory; [`DeviceContext::pin_shared`] pins shared memory. [`KernelModule`] and [`Kernel`] are
//! code on a device, [`Stream`] and [`Event`] order its work.
//!
//! Failures are [`DeviceFault`]s; their [`FaultClass`] tells whether the device is still usable.
//! Any fault not known to be harmless disables the device, and the process is expected to exit: see
//! `fault.rs`.
#![allow(unsafe_code)]

mod arena;
mod context;
mod descriptors;
mod driver;
mod fault;
mod free_list;
mod graph;
mod images;
mod job_stream;
mod kernel;
mod limits;
mod nvml;
mod open;
mod options;
mod parameters;
mod pinned_copy;
mod ring;
mod self_test;
mod stream;
mod survey;
mod unavailable;

pub use arena::{ALIGN, DeviceArena, DeviceLease, DeviceSlice};
pub use context::{DeviceContext, DeviceIdentity};
pub use descriptors::separate_descriptors;
pub use driver::CudaDriver;
pub use fault::{DeviceFault, FaultClass, exit_later, exit_without_handlers};
pub use graph::LaunchGraph;
pub use images::{MajorMinor, archs};
pub use job_stream::JobStream;
pub use kernel::{Kernel, KernelModule};
pub use limits::{BlockShape, DeviceLimits};
pub use nvml::NvmlMonitor;
pub use open::{Gpu, OpenDevices, open};
pub use options::{
    DevicePolicy, DeviceSelection, FaultHandler, LeaseGate, OpenOptions, SERVER_MEMORY_WAIT,
};
pub use parameters::{DevicePtr, KernelParameters};
pub use pinned_copy::{receive, send};
pub use ring::{CopySession, StagingRing};
pub use stream::{Event, Stream};
pub use survey::{DriverSurvey, SurveyedGpu, survey};
pub use unavailable::{GpuUnavailable, UnusableDevice};
