//! Judges the results of the self-test's jobs.

use std::sync::atomic::{AtomicU32, Ordering};

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
    passed: AtomicU32,
    skipped: AtomicU32,
}

impl<'a> SelfTestVerdict<'a> {
    pub fn new(gpu: &'a Gpu) -> Self {
        let (passed, skipped) = Default::default();
        Self { gpu, passed, skipped }
    }

    /// Takes whether a job's result is right, or its error. In a small arena, jobs without memory
    /// are skipped.
    pub fn add(
        &self,
        job: impl FnOnce() -> String,
        is_right: Result<bool>,
    ) -> Result<(), DeviceFault> {
        match is_right {
            Ok(true) => _ = self.passed.fetch_add(1, Ordering::Relaxed),
            Ok(false) => return Err(DeviceFault::WrongResult(job())),
            Err(Error::Exhausted { .. }) if self.gpu.arena().bytes() < AMPLE_ARENA_BYTES => {
                debug!(job = job(), "no memory for a job of the self-test");
                self.skipped.fetch_add(1, Ordering::Relaxed);
            }
            Err(Error::Exhausted { .. }) => return Err(self.out_of_memory()),
            Err(error) => return Err(DeviceFault::WrongResult(format!("{}: {error}", job()))),
        }
        Ok(())
    }

    /// Ends the jobs of this kind.
    ///
    /// Errors: `OutOfMemory` if all were skipped.
    pub fn end(mut self) -> Result<(), DeviceFault> {
        let is_untested = *self.passed.get_mut() == 0 && *self.skipped.get_mut() > 0;
        if is_untested { Err(self.out_of_memory()) } else { Ok(()) }
    }

    /// A GPU without memory for the test computes nothing wrong.
    fn out_of_memory(&self) -> DeviceFault {
        let arena = self.gpu.arena();
        let (total_bytes, free_bytes) = (arena.bytes(), arena.free_bytes());
        DeviceFault::OutOfMemory { requested_bytes: total_bytes, free_bytes, total_bytes }
    }
}
