//! Judges the results of the self-test's jobs.

use std::cell::Cell;

use tracing::debug;

use crate::{
    device::{DeviceFault, Gpu},
    error::{Error, Result},
};

/// An arena of this size has memory for every job of the self-test.
const AMPLE_ARENA_BYTES: u64 = 256 << 20;

/// The verdict on jobs of one kind.
pub struct SelfTestVerdict<'a> {
    gpu: &'a Gpu,
    passed: Cell<u32>,
    skipped: Cell<u32>,
}

impl<'a> SelfTestVerdict<'a> {
    pub fn new(gpu: &'a Gpu) -> Self {
        Self { gpu, passed: Cell::new(0), skipped: Cell::new(0) }
    }

    /// Takes whether a job's result is right, or its error. In a small arena, jobs without memory
    /// are skipped.
    pub fn add(
        &self,
        job: impl FnOnce() -> String,
        is_right: Result<bool>,
    ) -> Result<(), DeviceFault> {
        match is_right {
            Ok(true) => self.passed.set(self.passed.get() + 1),
            Ok(false) => return Err(DeviceFault::WrongResult(job())),
            Err(Error::Exhausted { .. }) if self.gpu.arena().bytes() < AMPLE_ARENA_BYTES => {
                debug!(job = job(), "no memory for a job of the self-test");
                self.skipped.set(self.skipped.get() + 1);
            }
            Err(Error::Exhausted { .. }) => return Err(self.out_of_memory()),
            Err(error) => return Err(DeviceFault::WrongResult(format!("{}: {error}", job()))),
        }
        Ok(())
    }

    /// Ends the jobs of this kind.
    ///
    /// Errors: `OutOfMemory` if all were skipped.
    pub fn end(self) -> Result<(), DeviceFault> {
        let is_untested = self.passed.get() == 0 && self.skipped.get() > 0;
        if is_untested { Err(self.out_of_memory()) } else { Ok(()) }
    }

    /// A GPU without memory for the test computes nothing wrong.
    fn out_of_memory(&self) -> DeviceFault {
        let arena = self.gpu.arena();
        let (total_bytes, free_bytes) = (arena.bytes(), arena.free_bytes());
        DeviceFault::OutOfMemory { requested_bytes: total_bytes, free_bytes, total_bytes }
    }
}
