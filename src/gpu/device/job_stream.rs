//! Streams, reused from job to job: memory that outlives jobs, such as a table, lists every stream
//! that used it.

use std::{collections::VecDeque, ops::Deref, sync::Arc};

use parking_lot::Mutex;

use super::{DeviceContext, DeviceFault, Stream};

/// A device's streams that no job uses at the moment. Clones share them.
#[derive(Clone, Default)]
pub(super) struct IdleStreams(Arc<Mutex<VecDeque<Stream>>>);

/// A stream for one job, returned on drop, perhaps with work under way. The next job's work runs
/// after it.
pub struct JobStream {
    stream: Stream,
    idle: IdleStreams,
}

impl IdleStreams {
    pub(super) fn take(&self, context: &DeviceContext) -> Result<JobStream, DeviceFault> {
        // The one returned first: its work is the most likely to have ended.
        let idle = self.0.lock().pop_front();
        // The short kernels of a program must not wait for all blocks of MSMs in other streams
        // (`benches/experiments/groth16.md`).
        let stream = idle.map_or_else(|| Stream::with_priority(context), Ok)?;
        Ok(JobStream { stream, idle: self.clone() })
    }
}

impl Deref for JobStream {
    type Target = Stream;

    fn deref(&self) -> &Stream {
        &self.stream
    }
}

impl Drop for JobStream {
    fn drop(&mut self) {
        self.idle.0.lock().push_back(self.stream.clone());
    }
}
