//! Device failures, such as those that the driver logs as an Xid, and their consequences.
//!
//! Only a short list of errors leaves the device usable. For most others NVIDIA's documentation
//! requires a restart of the process. Treating an unknown error as harmless could leave a daemon
//! that looks healthy but fails every job.

use std::{sync::Arc, thread, time::Duration};

use cudarc::driver::DriverError;
use serde::{Deserialize, Serialize};

use crate::error::InputError;

/// A failed call to the driver, or a failed wait for the device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeviceFault {
    /// No free piece of the arena is large enough.
    #[error(
        "device memory is full: {requested_bytes} bytes requested, the largest free block has \
         {free_bytes}"
    )]
    OutOfMemory {
        /// Bytes requested.
        requested_bytes: u64,
        /// Bytes of the largest free piece.
        free_bytes: u64,
        /// Bytes of the arena.
        total_bytes: u64,
    },
    /// The driver refused a call, or reports the error of an earlier one.
    #[error("{call}: {name} ({code})")]
    Driver {
        /// Name of the driver function.
        call: &'static str,
        /// The error's name in the CUDA headers.
        name: String,
        /// The error's number in the CUDA headers.
        code: u32,
    },
    /// The device did not finish its work in time.
    #[error("the device did not respond within {} ms", .0.as_millis())]
    Hang(Duration),
    /// An earlier fault disabled the device.
    #[error("the device is disabled after an earlier fault")]
    Disabled,
    /// The device computes wrong results.
    #[error("the device computes wrong results: {0}")]
    WrongResult(String),
    /// There is no such transform.
    #[error(transparent)]
    Input(InputError),
    /// A module or kernel does not match what this program expects.
    #[error("kernel {kernel}: {problem}")]
    KernelMismatch {
        /// The kernel's name.
        kernel: String,
        /// The mismatch.
        problem: String,
    },
}

/// The consequence of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FaultClass {
    /// Memory or launch resources ran out: one job fails, the device stays usable.
    Exhausted,
    /// This program called the driver wrongly: one job fails, the device stays usable.
    Misuse,
    /// The context or the device is lost: the process must be restarted.
    Fatal,
}

impl FaultClass {
    /// Name for logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exhausted => "exhausted",
            Self::Misuse => "misuse",
            Self::Fatal => "fatal",
        }
    }
}

impl DeviceFault {
    pub(super) fn from_driver(call: &'static str, error: DriverError) -> Self {
        // The variant's name, such as `CUDA_ERROR_ILLEGAL_ADDRESS`.
        Self::Driver { call, name: format!("{:?}", error.0), code: error.0 as u32 }
    }

    pub(crate) fn mismatch(kernel: &str, problem: impl Into<String>) -> Self {
        Self::KernelMismatch { kernel: kernel.into(), problem: problem.into() }
    }

    /// The consequence of this fault.
    pub const fn class(&self) -> FaultClass {
        match self {
            // Out of memory; too many resources requested for launch.
            Self::OutOfMemory { .. } | Self::Driver { code: 2 | 701, .. } => FaultClass::Exhausted,
            // Invalid value; named symbol not found.
            Self::Driver { code: 1 | 500, .. } | Self::KernelMismatch { .. } | Self::Input(_) => {
                FaultClass::Misuse
            }
            Self::Driver { .. } | Self::Hang(_) | Self::Disabled | Self::WrongResult(_) => {
                FaultClass::Fatal
            }
        }
    }
}

/// Exits at once, without exit handlers: the driver's own may hang after a fatal fault.
pub fn exit_without_handlers(code: i32) -> ! {
    // SAFETY: it does not return and runs no other code of this process.
    unsafe { libc::_exit(code) }
}

/// Calls `last` after `wait`, and [exits](exit_without_handlers); at once if it gets no thread.
pub fn exit_later(wait: Duration, code: i32, last: impl Fn() + Send + Sync + 'static) {
    let last = Arc::new(last);
    let late = last.clone();
    let exit = move || {
        thread::sleep(wait);
        late();
        exit_without_handlers(code);
    };
    if thread::Builder::new().name("capstan-end".into()).spawn(exit).is_err() {
        last();
        exit_without_handlers(code);
    }
}
