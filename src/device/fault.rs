//! What goes wrong on a device, and what it means for the process.
//!
//! Only what is on a short list leaves the device usable. NVIDIA's documentation says of most other
//! errors that the process must be started again; taking an unknown one for harmless would have a
//! daemon that looks well serve failures for hours.

use std::time::Duration;

use cudarc::driver::DriverError;

use crate::error::{Error, Limit};

/// When device memory is worth another try: other jobs have finished pieces by then.
const RETRY_FULL: Duration = Duration::from_millis(500);

/// A call to the driver or its wait that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The arena has no room.
    #[error("device memory is full: {wanted} bytes wanted, {free} free in one piece")]
    Full {
        /// Bytes asked for.
        wanted: u64,
        /// Bytes of the largest free piece.
        free: u64,
    },
    /// The driver refused a call, or reports what an earlier one did.
    #[error("{call}: {name} ({code})")]
    Driver {
        /// The driver's function.
        call: &'static str,
        /// Its answer, as the CUDA headers name it.
        name: String,
        /// The same as a number.
        code: u32,
    },
    /// The device did not get done with what it was given.
    #[error("the device did not answer for {} ms", .0.as_millis())]
    Hang(Duration),
    /// An earlier fault ended the use of this device.
    #[error("the device was given up after an earlier fault")]
    Dead,
    /// The device computes wrong results.
    #[error("the device computes wrong results: {0}")]
    Wrong(String),
    /// A module does not hold what this program expects of it.
    #[error("kernel {kernel}: {problem}")]
    Kernel {
        /// The kernel's name.
        kernel: String,
        /// What does not fit.
        problem: String,
    },
}

/// What a fault means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Memory or launch resources ran out: one job fails, the device is well.
    Exhausted,
    /// This program called the driver wrongly: one job fails, the device is well.
    Misuse,
    /// The context or the device is lost: the process has to be started again.
    Fatal,
}

impl Class {
    /// For logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exhausted => "exhausted",
            Self::Misuse => "misuse",
            Self::Fatal => "fatal",
        }
    }
}

impl Fault {
    pub(super) fn driver(call: &'static str, error: DriverError) -> Self {
        // `CUDA_ERROR_ILLEGAL_ADDRESS` and the like: the name of the variant.
        Self::Driver { call, name: format!("{:?}", error.0), code: error.0 as u32 }
    }

    /// What it means.
    pub const fn class(&self) -> Class {
        match self {
            Self::Full { .. } => Class::Exhausted,
            // Out of memory; too many resources requested for launch.
            Self::Driver { code: 2 | 701, .. } => Class::Exhausted,
            // Invalid value; named symbol not found.
            Self::Driver { code: 1 | 500, .. } | Self::Kernel { .. } => Class::Misuse,
            Self::Driver { .. } | Self::Hang(_) | Self::Dead | Self::Wrong(_) => Class::Fatal,
        }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault.class() {
            Class::Exhausted => {
                Self::Exhausted { limit: Limit::DeviceMemory, retry_after: Some(RETRY_FULL) }
            }
            Class::Misuse => Self::Internal(fault.to_string()),
            Class::Fatal => Self::DeviceLost,
        }
    }
}

/// Ends the process at once, without the driver's own cleaning up at exit: after a fatal fault that
/// may hang.
pub fn quit(code: i32) -> ! {
    // SAFETY: it does not return, and runs nothing of this process.
    unsafe { libc::_exit(code) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn driver(code: u32) -> Fault {
        Fault::Driver { call: "cuLaunchKernel", name: "X".into(), code }
    }

    #[test]
    fn only_what_is_listed_is_survived() {
        for code in 1..1000 {
            let expected = match code {
                2 | 701 => Class::Exhausted,
                1 | 500 => Class::Misuse,
                _ => Class::Fatal,
            };
            assert_eq!(driver(code).class(), expected, "{code}");
        }
        assert_eq!(Fault::Hang(Duration::ZERO).class(), Class::Fatal);
        assert_eq!(Error::from(driver(700)), Error::DeviceLost);
        let full = Fault::Full { wanted: 1, free: 0 };
        let Error::Exhausted { limit, retry_after } = full.into() else { panic!("not exhausted") };
        assert_eq!((limit, retry_after), (Limit::DeviceMemory, Some(RETRY_FULL)));
    }
}
