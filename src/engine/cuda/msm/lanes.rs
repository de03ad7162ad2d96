//! The streams of passes. The second one, which has priority, is for MSMs that do not yield to
//! others: small ones need not wait for the passes of a large one, and the last stages of one MSM,
//! which leave multiprocessors idle, overlap with the first stages of another.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::{
    device::{DeviceContext, DeviceFault, Event, Stream},
    engine::cuda::workspace::WorkspaceId,
    msm::MsmPassPlan,
};

/// The second workspace takes at most this part of the device's memory, 1/32.
const PRIORITY_WORKSPACE_DIVISOR: u64 = 32;

/// Runs passes in order.
pub struct PassLane {
    pub stream: Stream,
    pub workspace: WorkspaceId,
    /// The end of the last pass.
    end: Mutex<Option<Event>>,
}

/// The lanes of a device.
pub struct PassLanes {
    usual: PassLane,
    priority: PassLane,
    /// MSMs that found both lanes busy.
    turns: AtomicUsize,
}

impl PassLane {
    fn new(stream: Stream, workspace: WorkspaceId) -> Self {
        Self { stream, workspace, end: Mutex::default() }
    }

    /// Notes the end of a pass that has just been launched.
    pub fn end_at(&self, end: Event) {
        *self.end.lock() = Some(end);
    }

    fn is_idle(&self) -> Result<bool, DeviceFault> {
        self.end.lock().as_ref().map_or(Ok(true), Event::is_reached)
    }
}

impl PassLanes {
    pub fn new(context: &DeviceContext) -> Result<Self, DeviceFault> {
        let [usual, priority] = WorkspaceId::ALL;
        Ok(Self {
            usual: PassLane::new(Stream::new(context)?, usual),
            priority: PassLane::new(Stream::with_priority(context)?, priority),
            turns: AtomicUsize::new(0),
        })
    }

    pub fn get(&self, workspace: WorkspaceId) -> &PassLane {
        if workspace == self.priority.workspace { &self.priority } else { &self.usual }
    }

    /// The lane for an MSM on a device with this much memory. `yields` if other jobs are to run
    /// between its passes.
    pub fn choose(
        &self,
        plan: &MsmPassPlan,
        memory_bytes: u64,
        yields: bool,
    ) -> Result<&PassLane, DeviceFault> {
        let workspace_max = memory_bytes / PRIORITY_WORKSPACE_DIVISOR;
        if yields || plan.workspace_bytes() > workspace_max {
            return Ok(&self.usual);
        }
        if self.priority.is_idle()? {
            return Ok(&self.priority);
        }
        if self.usual.is_idle()? {
            return Ok(&self.usual);
        }
        let turn = self.turns.fetch_add(1, Ordering::Relaxed);
        Ok(if turn.is_multiple_of(2) { &self.priority } else { &self.usual })
    }

    /// The ends of all passes launched so far.
    pub fn ends(&self) -> Result<[Event; 2], DeviceFault> {
        Ok([self.usual.stream.record()?, self.priority.stream.record()?])
    }
}
