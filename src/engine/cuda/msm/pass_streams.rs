//! The streams of passes. Small MSMs need not wait for the passes of a large one, and the last
//! stages of one MSM, which leave multiprocessors idle, overlap with the first ones of another.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::long_passes::is_long;
use crate::{
    device::{DeviceContext, DeviceFault, Event, Stream},
    engine::cuda::workspace::PassPriority,
    msm::MsmPassPlan,
};

/// An MSM that needs a workspace of more than this part of the device's memory, 1/32, has no
/// priority: the second workspace would take too much.
const HIGH_WORKSPACE_DIVISOR: u64 = 32;

/// Runs passes in order.
pub struct PassStream {
    pub priority: PassPriority,
    pub stream: Stream,
    /// The end of the last pass.
    end: Mutex<Option<Event>>,
}

/// What decides on the stream of an MSM.
pub struct StreamNeeds<'a> {
    pub plan: &'a MsmPassPlan,
    /// Whether other jobs are to run between its passes.
    pub yields: bool,
    /// Whether a long pass is on the device or will be soon.
    pub meets_long_work: bool,
    /// The device's memory.
    pub memory_bytes: u64,
}

pub struct PassStreams {
    normal: PassStream,
    high: PassStream,
    /// The number of MSMs that found both streams busy.
    turns: AtomicUsize,
}

impl PassStream {
    fn new(priority: PassPriority, stream: Stream) -> Self {
        Self { priority, stream, end: Mutex::default() }
    }

    /// Notes the end of a pass that has just been launched.
    pub fn end_at(&self, end: Event) {
        *self.end.lock() = Some(end);
    }

    fn is_idle(&self) -> Result<bool, DeviceFault> {
        self.end.lock().as_ref().map_or(Ok(true), Event::is_reached)
    }
}

impl PassStreams {
    pub fn new(context: &DeviceContext) -> Result<Self, DeviceFault> {
        Ok(Self {
            normal: PassStream::new(PassPriority::Normal, Stream::new(context)?),
            high: PassStream::new(PassPriority::High, Stream::with_priority(context)?),
            turns: AtomicUsize::new(0),
        })
    }

    pub fn get(&self, priority: PassPriority) -> &PassStream {
        match priority {
            PassPriority::Normal => &self.normal,
            PassPriority::High => &self.high,
        }
    }

    /// The stream for an MSM.
    pub fn choose(&self, needs: &StreamNeeds<'_>) -> Result<&PassStream, DeviceFault> {
        let &StreamNeeds { plan, yields, meets_long_work, memory_bytes } = needs;
        if yields || plan.workspace_bytes() > memory_bytes / HIGH_WORKSPACE_DIVISOR {
            return Ok(&self.normal);
        }
        // Long MSMs leave the priority to others if they can.
        let [first, second] = match is_long(plan) {
            true => [&self.normal, &self.high],
            false => [&self.high, &self.normal],
        };
        if first.is_idle()? {
            return Ok(first);
        }
        if second.is_idle()? {
            return Ok(second);
        }
        let turn = self.turns.fetch_add(1, Ordering::Relaxed);
        let waits_for_long_work = meets_long_work && !is_long(plan);
        Ok(if waits_for_long_work || turn.is_multiple_of(2) { &self.high } else { &self.normal })
    }

    /// The ends of all passes launched so far.
    pub fn ends(&self) -> Result<[Event; PassPriority::COUNT], DeviceFault> {
        Ok([self.normal.stream.record()?, self.high.stream.record()?])
    }
}
