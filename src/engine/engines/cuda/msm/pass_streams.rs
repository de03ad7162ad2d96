//! The streams of passes: four, of which three have priority. Small MSMs need not wait for the
//! passes of a large one, and the last stages of one MSM, which leave multiprocessors idle, overlap
//! with the first ones of others.
//!
//! An MSM gets the stream with the least modelled work; large MSMs use two of the streams only,
//! since each stream keeps its workspace. Step times of several streams overlap, so they can add up
//! to more than the call took.

use std::time::Duration;

use parking_lot::Mutex;

use super::pass_schedule::is_long;
use crate::{
    device::{DeviceContext, DeviceFault, Event, Stream},
    engines::cuda::workspace::PassStreamId,
    msm::MsmPassPlan,
};

/// An MSM that needs a workspace of more than this part of the device's memory, 1/32, has no
/// priority: the other workspaces would take too much.
const HIGH_WORKSPACE_DIVISOR: u64 = 32;

/// Runs passes in order.
pub struct PassStream {
    pub id: PassStreamId,
    pub stream: Stream,
    /// Those that had not ended when the last one was launched.
    launched: Mutex<Vec<LaunchedPass>>,
}

struct LaunchedPass {
    end: Event,
    modelled: Duration,
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

pub struct PassStreams([PassStream; PassStreamId::COUNT]);

impl PassStream {
    fn new(id: PassStreamId, stream: Stream) -> Self {
        Self { id, stream, launched: Mutex::default() }
    }

    /// Notes a pass that has just been launched, and its end.
    pub fn record(&self, end: Event, modelled: Duration) {
        let mut launched = self.launched.lock();
        launched.retain(|pass| !pass.end.is_reached().unwrap_or(false));
        launched.push(LaunchedPass { end, modelled });
    }

    /// The modelled time of the passes that have not ended.
    fn backlog(&self) -> Result<Duration, DeviceFault> {
        let mut backlog = Duration::ZERO;
        for LaunchedPass { end, modelled } in &*self.launched.lock() {
            if !end.is_reached()? {
                backlog += *modelled;
            }
        }
        Ok(backlog)
    }
}

impl PassStreams {
    pub fn new(context: &DeviceContext) -> Result<Self, DeviceFault> {
        let stream = |id| {
            let is_normal = id == PassStreamId::NORMAL;
            let stream = if is_normal { Stream::new } else { Stream::with_priority };
            Ok(PassStream::new(id, stream(context)?))
        };
        let [a, b, c, d] = PassStreamId::ALL.map(stream);
        Ok(Self([a?, b?, c?, d?]))
    }

    pub fn get(&self, id: PassStreamId) -> &PassStream {
        &self.0[id.index()]
    }

    /// The stream for an MSM: of those that suit it, the one with the least work.
    pub fn choose(&self, needs: &StreamNeeds<'_>) -> Result<&PassStream, DeviceFault> {
        let &StreamNeeds { plan, yields, meets_long_work, memory_bytes } = needs;
        let normal = self.get(PassStreamId::NORMAL);
        if yields || plan.workspace_bytes() > memory_bytes / HIGH_WORKSPACE_DIVISOR {
            return Ok(normal);
        }
        let suitable = match is_long(plan) {
            true => &PassStreamId::FOR_LONG[..],
            // Those with priority, so that it does not wait for the long work.
            false if meets_long_work => &PassStreamId::FOR_SHORT[..PassStreamId::COUNT - 1],
            false => &PassStreamId::FOR_SHORT[..],
        };
        let mut best = None;
        for id in suitable {
            let backlog = self.get(*id).backlog()?;
            if best.is_none_or(|(least, _)| backlog < least) {
                best = Some((backlog, *id));
            }
        }
        Ok(best.map_or(normal, |(_, id)| self.get(id)))
    }

    /// The ends of all passes launched so far.
    pub fn ends(&self) -> Result<Vec<Event>, DeviceFault> {
        self.0.iter().map(|pass_stream| pass_stream.stream.record()).collect()
    }
}
