//! NVIDIA GPUs: the only module that knows CUDA, and the only one with `unsafe` beside a few files
//! that ARCHITECTURE.md lists.
//!
//! [`Driver`] finds the driver, [`open`] the devices. A [`Gpu`] is an open device with an [`Arena`]
//! of its memory and a [`Ring`] of pinned host memory, beside what [`Context::pin`] gives for good.
//! [`Module`] and [`Kernel`] are code on it, [`Stream`] and [`Event`] say what runs after what.
//!
//! What fails is a [`Fault`]: [`Class`] says whether the device is still good. Every failure that
//! is not known to be harmless ends the use of the device, and the process is expected to end with
//! it: see `fault.rs`.
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
