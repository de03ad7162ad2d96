//! NVIDIA GPUs. This is the only module that knows CUDA.
//!
//! [`Driver`] finds the driver, [`open`] opens devices. A [`Gpu`] is an open device with an
//! [`Arena`] of device memory and a [`Ring`] of pinned host memory; [`Context::pin`] pins more,
//! permanently. [`Module`] and [`Kernel`] are code on a device, [`Stream`] and [`Event`] order its
//! work.
//!
//! Failures are [`Fault`]s; their [`Class`] tells whether the device is still usable. Any fault not
//! known to be harmless disables the device, and the process is expected to exit: see `fault.rs`.
#![allow(unsafe_code)]

mod arena;
mod context;
mod facts;
mod fault;
mod free_list;
mod images;
mod kernel;
mod limits;
mod open;
mod parameters;
mod pinned;
mod probe;
mod ring;
mod self_test;
mod stream;

pub use arena::{ALIGN, Arena, Lease, Span};
pub use context::{Context, Identity, OnFault};
pub use facts::{Facts, Monitor};
pub use fault::{Class, Fault, quit};
pub use images::{archs, images};
pub use kernel::{Block, Kernel, Module};
pub use limits::DeviceLimits;
pub use open::{Gpu, LeftOut, OpenOptions, Opened, Wanted, open};
pub use parameters::{Parameter, Parameters, Ptr};
pub use pinned::{receive, send};
pub use probe::{Driver, Unusable};
pub use ring::{Copies, Ring, Upload};
pub use stream::{Event, Stream};
