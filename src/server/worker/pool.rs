//! The worker processes of a server, one per GPU, and which of them runs go to.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tracing::warn;

use super::{
    memories::SharedMemories,
    process::{LiveWorker, ReadyWorker, WorkerProcess},
    sent_objects::{BasesScope, UsedObject},
    settings::WorkerPoolSettings,
};
use crate::{
    curve::points::Bases,
    engine::{
        JobControl,
        cuda::{GpuFacts, used_and_left_out},
    },
    error::EngineResult as Result,
    exec::RunOperands,
    sync::{Condvar, Mutex},
    telemetry,
};

/// Time that a run waits for a worker that is being replaced, before the host takes over.
const REPLACEMENT_WAIT: Duration = Duration::from_secs(30);

/// The interval at which a waiting run looks at its cancellation.
const CANCEL_CHECK: Duration = Duration::from_millis(20);

/// Limit on the wait for killed workers: the driver frees their memory.
const END_TIMEOUT: Duration = Duration::from_secs(4);

/// Copying bases to a device, at the rate of the link (`benches/experiments/host-device.md`).
const BASES_COPY_NS_PER_BYTE: f64 = 1.0 / 53.7;

pub struct WorkerPool {
    settings: WorkerPoolSettings,
    /// One per slot.
    gpus: Vec<GpuFacts>,
    state: Mutex<PoolState>,
    changed: Condvar,
    memories: SharedMemories,
    /// The number of devices that were requested and cannot be used.
    left_out: usize,
}

#[derive(Default)]
struct PoolState {
    /// One per slot.
    workers: Vec<SlotState>,
    last_run: u64,
    is_closed: bool,
}

pub enum SlotState {
    /// The worker is being started.
    Starting,
    Serving(Arc<LiveWorker>),
    /// The device has lost too many workers lately.
    Quarantined,
}

impl WorkerPool {
    /// A pool whose workers are being started, one per GPU.
    pub fn new(settings: WorkerPoolSettings, gpus: Vec<GpuFacts>, left_out: usize) -> Self {
        let workers = gpus.iter().map(|_| SlotState::Starting).collect();
        let state = Mutex::new(PoolState { workers, ..PoolState::default() });
        let changed = Condvar::new();
        let memories = SharedMemories::default();
        Self { settings, gpus, state, changed, memories, left_out }
    }

    /// The devices that can serve, whether their workers run or are being replaced.
    pub fn gpus(&self) -> &[GpuFacts] {
        &self.gpus
    }

    /// The memory that all workers map.
    pub fn memories(&self) -> &SharedMemories {
        &self.memories
    }

    /// How many GPUs are used and left out, in a sentence for the operator.
    pub fn summary(&self) -> String {
        used_and_left_out(self.gpus.len(), self.left_out)
    }

    /// The workers that serve.
    pub fn live(&self) -> Vec<Arc<LiveWorker>> {
        self.state.lock().workers.iter().filter_map(SlotState::live).cloned().collect()
    }

    /// A number for a run that no other run has.
    pub fn next_run(&self) -> u64 {
        let mut state = self.state.lock();
        state.last_run += 1;
        state.last_run
    }

    pub fn settings(&self) -> &WorkerPoolSettings {
        &self.settings
    }

    /// The worker that would begin a run soonest, by the modelled time of what it has and of
    /// copying the run's objects. Waits for workers that are being replaced if none serves; `None`
    /// if that takes too long.
    ///
    /// Errors: `Cancelled`, `Deadline` from `control`.
    pub fn choose(
        &self,
        operands: &RunOperands<'_>,
        scope: BasesScope,
        control: &JobControl,
    ) -> Result<Option<Arc<LiveWorker>>> {
        let give_up = Instant::now() + REPLACEMENT_WAIT;
        let mut state = self.state.lock();
        loop {
            let live = state.workers.iter().filter_map(SlotState::live);
            let soonest = live.min_by_key(|worker| {
                let bases = operands.bases.iter().map(|bases| UsedObject::Bases(bases, scope));
                let matrices = operands.matrices.iter().map(UsedObject::Matrix);
                worker.backlog() + copy_time(worker, bases.chain(matrices))
            });
            if let Some(worker) = soonest {
                return Ok(Some(worker.clone()));
            }
            control.check()?;
            if state.is_closed || Instant::now() >= give_up {
                return Ok(None);
            }
            self.changed.wait_for(&mut state, CANCEL_CHECK);
        }
    }

    /// A worker for each part of a call, from the bases of the parts: those that would begin
    /// soonest, by the modelled time of what they have and of copying the bases. No two parts get
    /// the same worker if there are enough. Empty if no worker serves.
    pub fn choose_for_parts(&self, parts: &[&[Bases]], scope: BasesScope) -> Vec<Arc<LiveWorker>> {
        let live = self.live();
        let wait = |bases: &&[Bases]| -> Vec<Duration> {
            let bases = || bases.iter().map(|bases| UsedObject::Bases(bases, scope));
            live.iter().map(|worker| worker.backlog() + copy_time(worker, bases())).collect()
        };
        let waits: Vec<_> = parts.iter().map(wait).collect();
        assign(&waits, live.len()).into_iter().map(|at| live[at].clone()).collect()
    }

    /// Makes a worker that has just started serve in its slot. Returns its process.
    pub fn publish(&self, slot: usize, ready: ReadyWorker) -> WorkerProcess {
        let ReadyWorker { worker, process } = ready;
        let worker = Arc::new(worker);
        // A worker that is lost here is replaced like any other.
        self.memories.map_all(&worker, || self.set(slot, SlotState::Serving(worker.clone())));
        if !self.is_open() {
            // The pool may have ended its workers before it had this one.
            worker.link.end();
        }
        process
    }

    pub fn set(&self, slot: usize, slot_state: SlotState) {
        let mut state = self.state.lock();
        // The old worker is dropped without the lock.
        let _old = std::mem::replace(&mut state.workers[slot], slot_state);
        drop(state);
        self.changed.notify_all();
        self.count_devices();
    }

    pub fn count_devices(&self) {
        // Under the lock, so that the last count is the newest.
        let state = self.state.lock();
        let serving = state.workers.iter().filter_map(SlotState::live).count();
        telemetry::devices(serving, self.gpus.len() - serving, self.left_out);
    }

    /// Ends the worker of a slot, which is being replaced: it has ended, or begins to.
    pub fn mark_lost(&self, slot: usize) {
        if let SlotState::Serving(worker) = &self.state.lock().workers[slot] {
            worker.link.end();
        }
        self.set(slot, SlotState::Starting);
    }

    pub fn is_open(&self) -> bool {
        !self.state.lock().is_closed
    }

    /// Waits until the pool is closed, or for this long. False if it is closed.
    pub fn wait_while_open(&self, time: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.is_closed {
            self.changed.wait_for(&mut state, time);
        }
        !state.is_closed
    }

    /// Ends the workers that serve, and waits until their processes have ended. No other starts;
    /// one that is starting ends once it is ready.
    pub fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_all();
        let live = self.live();
        live.iter().for_each(|worker| worker.link.end());
        let give_up = Instant::now() + END_TIMEOUT;
        for worker in live {
            let left = give_up.saturating_duration_since(Instant::now());
            if !worker.link.ends_within(left) {
                warn!(device = worker.facts.index, "a worker does not end");
            }
        }
    }
}

impl SlotState {
    fn live(&self) -> Option<&Arc<LiveWorker>> {
        match self {
            Self::Serving(worker) if !worker.link.is_lost() => Some(worker),
            _ => None,
        }
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        self.close();
    }
}

/// The time to copy objects to a device that has not mapped them yet.
fn copy_time<'a>(worker: &LiveWorker, objects: impl Iterator<Item = UsedObject<'a>>) -> Duration {
    let missing = objects.filter(|object| !worker.objects.contains(*object));
    let bytes: usize = missing.map(UsedObject::bytes).sum();
    Duration::from_nanos((bytes as f64 * BASES_COPY_NS_PER_BYTE) as u64)
}

/// The number of a worker for each part; empty if there are no workers. `waits` says for each part
/// how long each worker would take to begin. The shortest waits are assigned first.
fn assign(waits: &[Vec<Duration>], workers: usize) -> Vec<usize> {
    let mut chosen = vec![None; waits.len()];
    let mut parts_of = vec![0; workers];
    for _ in 0..waits.len() {
        let left = (0..waits.len()).filter(|part| chosen[*part].is_none());
        let pairs = left.flat_map(|part| (0..workers).map(move |worker| (part, worker)));
        let soonest = pairs.min_by_key(|(part, worker)| (parts_of[*worker], waits[*part][*worker]));
        if let Some((part, worker)) = soonest {
            chosen[part] = Some(worker);
            parts_of[worker] += 1;
        }
    }
    chosen.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assigned<const PARTS: usize>(waits_ms: [&[u64]; PARTS], workers: usize) -> Vec<usize> {
        let of_part = |waits: &[u64]| waits.iter().map(|ms| Duration::from_millis(*ms)).collect();
        assign(&waits_ms.map(of_part), workers)
    }

    #[test]
    fn parts_go_where_they_begin_soonest() {
        assert_eq!(assigned([&[0, 0, 0]; 3], 3), [0, 1, 2]);
        assert_eq!(assigned([&[9, 1, 5]; 3], 3), [1, 2, 0]);
        // Each part has its bases on another worker.
        assert_eq!(assigned([&[8, 8, 0], &[0, 8, 8], &[8, 0, 8]], 3), [2, 0, 1]);
        // A part that is new to all workers leaves the holder of another part alone.
        assert_eq!(assigned([&[8, 8], &[0, 8]], 2), [1, 0]);
        // A holder that is busy for longer than the copy takes is not worth the wait.
        assert_eq!(assigned([&[50, 8]], 2), [1]);
    }

    #[test]
    fn parts_share_workers_if_there_are_too_few() {
        assert_eq!(assigned([&[0]; 3], 1), [0; 3]);
        assert_eq!(assigned([&[0, 0]; 3], 2), [0, 1, 0]);
        assert!(assigned([&[]; 2], 0).is_empty());
    }
}
