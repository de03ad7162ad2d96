//! The executor of a server whose GPUs are in worker processes.

use std::{any::Any, sync::Arc, thread, time::Duration};

use parking_lot::Mutex;
use tracing::warn;

use super::{
    device_bases,
    message::{
        ControlReply, ControlRequest, DeviceReading, LaneOutcome, LaneRequest, PointsRequest,
    },
    pool::WorkerPool,
    process::{LiveWorker, RequestFailure},
    run::WorkerRun,
    sent_objects::BasesScope,
    spread::{self, SpreadTarget},
};
use crate::{
    buffer::SharedPiece,
    curve::{
        G1Affine, G2Affine, Group,
        layout::points_as_bytes_mut,
        points::{self, BadElement, Bases, CurvePoint, PointEncoding, PointsMut},
    },
    engine::{
        BasesDevice, DeviceInfo, DeviceResidency, EngineModel, JobControl, MsmNttEngine,
        PointChecker, ResidencyChange, ResidentObject,
        cuda::{CudaModel, checked_piece_len},
    },
    error::{EngineError as Error, EngineResult as Result},
    exec::{
        Evictor, Executor, HostExecutor, JOBS_PER_DEVICE, MSM_BATCH_SCALARS_MAX, ProgramPlan,
        RunCall, RunInProgress, RunOperands,
    },
    region::{REGION_ALIGNMENT, SharedMemory},
};

/// If this many workers are lost while they check the same points, the host checks the points.
const ATTEMPTS: u32 = 2;

/// Runs each program on one of the workers.
pub struct WorkerExecutor {
    pool: Arc<WorkerPool>,
    model: CudaModel,
    /// Runs programs while no GPU serves.
    host: HostExecutor,
    /// Memory for points that are checked, with its share.
    idle_exchanges: Mutex<Vec<PointsExchange>>,
}

/// Memory through which points go to a worker and come back.
struct PointsExchange {
    _share: MemoryShare,
    memory: Arc<SharedMemory>,
}

impl WorkerExecutor {
    /// `host` runs programs while no GPU serves; `model` is that of the pool's GPUs.
    pub fn new(pool: Arc<WorkerPool>, model: CudaModel, host: HostExecutor) -> Self {
        Self { pool, model, host, idle_exchanges: Mutex::default() }
    }

    fn take_exchange(&self, bytes: usize) -> Result<PointsExchange> {
        let mut idle = self.idle_exchanges.lock();
        if let Some(at) = idle.iter().position(|exchange| exchange.memory.size() >= bytes) {
            return Ok(idle.swap_remove(at));
        }
        // Those that are left are too small.
        let too_small = std::mem::take(&mut *idle);
        drop(idle);
        drop(too_small);
        let bytes = bytes.next_multiple_of(REGION_ALIGNMENT as usize);
        let memory = SharedMemory::create(bytes)
            .map_err(|error| Error::Internal(format!("no memory to check points: {error}")))?;
        let memory = Arc::new(memory);
        let _share = MemoryShare::new(&self.pool, &memory, 0);
        Ok(PointsExchange { _share, memory })
    }

    fn check_points<A: CurvePoint>(
        &self,
        encoding: PointEncoding,
        bytes: &[u8],
        out: &mut [A],
    ) -> Result<Result<(), BadElement>> {
        let count = out.len();
        let decoded = points_as_bytes_mut(out);
        let exchange = self.take_exchange(bytes.len() + decoded.len())?;
        let memory = &exchange.memory;
        memory.write(0, bytes);
        let (from_len, to_len) = (bytes.len() as u64, decoded.len() as u64);
        let request = LaneRequest::CheckPoints(PointsRequest {
            group: A::GROUP,
            encoding,
            from: SharedPiece { memory: memory.id(), start: 0, len: from_len },
            to: SharedPiece { memory: memory.id(), start: from_len, len: to_len },
        });
        let none = RunOperands::default();
        let control = JobControl::default();
        for _ in 0..ATTEMPTS {
            let Some(worker) = self.pool.choose(&none, BasesScope::WholeObject, &control)? else {
                break;
            };
            let suits = |outcome: LaneOutcome| outcome.into_checked(count, to_len);
            match worker.request(&request, None, &control, Duration::ZERO, suits) {
                Ok(Ok(checked)) => {
                    if checked.is_ok() {
                        memory.read(bytes.len(), decoded);
                    }
                    self.idle_exchanges.lock().push(exchange);
                    return Ok(checked);
                }
                Ok(Err(failure)) => return Err(failure.into_general_error()),
                Err(RequestFailure::NotSent(error)) => return Err(error),
                Err(RequestFailure::LostBefore | RequestFailure::LostMeanwhile) => {}
            }
        }
        let points = points::decode::<A>(encoding, bytes);
        Ok(points.map(|points| out.copy_from_slice(&points)))
    }
}

/// The worker's device, with its readings if the worker answers.
fn describe(worker: &LiveWorker) -> Option<DeviceInfo> {
    let reply = worker.link.control(&ControlRequest::Describe, None);
    let Ok(Ok(ControlReply::Described(reading))) = reply else { return None };
    let DeviceReading { name, units, memory_bytes, gpu } = *reading;
    Some(DeviceInfo { name, kind: "cuda", units, memory_bytes, gpu: Some(gpu) })
}

impl Executor for WorkerExecutor {
    fn description(&self) -> DeviceInfo {
        self.model.description()
    }

    fn devices(&self) -> Vec<DeviceInfo> {
        let cpu = [self.host.engine.description()];
        let live = self.pool.live();
        for worker in &live {
            // A lost worker has no objects any more.
            let _lost = worker.objects.unmap_dropped(&worker.link);
        }
        cpu.into_iter().chain(live.iter().filter_map(|worker| describe(worker))).collect()
    }

    fn close(&self) {
        self.pool.close();
    }

    fn jobs_at_once(&self) -> usize {
        JOBS_PER_DEVICE * self.model.gpus.len()
    }

    fn gpus_serving(&self) -> usize {
        self.pool.live().len()
    }

    fn share_memory(
        &self,
        memory: &Arc<SharedMemory>,
        pinned_bytes: usize,
    ) -> Option<Box<dyn Any + Send + Sync>> {
        Some(Box::new(MemoryShare::new(&self.pool, memory, pinned_bytes as u64)))
    }

    fn point_checker(&self) -> Option<&dyn PointChecker> {
        Some(self)
    }

    fn bases_devices(&self) -> Vec<BasesDevice> {
        device_bases::devices(&self.pool)
    }

    fn residency(&self, device: u32) -> Option<Vec<ResidentObject>> {
        device_bases::list(&self.pool, device)
    }

    fn set_residency(
        &self,
        device: u32,
        bases: &Bases,
        change: ResidencyChange,
        control: &JobControl,
    ) -> Result<DeviceResidency> {
        device_bases::set(&self.pool, device, bases, change, control)
    }

    fn oracle(&self) -> Option<Arc<dyn MsmNttEngine>> {
        self.host.oracle()
    }

    fn evictor(&self) -> Evictor {
        let pool = self.pool.clone();
        Box::new(move |operands| {
            let live = pool.live();
            let evict = |worker: &LiveWorker| {
                // A lost worker's device keeps nothing.
                let _lost = worker.objects.evict_suspects(&worker.link, operands);
            };
            // At the same time, since one may be slow to answer.
            thread::scope(|scope| {
                for worker in &live {
                    let spawned = thread::Builder::new().spawn_scoped(scope, || evict(worker));
                    if spawned.is_err() {
                        evict(worker);
                    }
                }
            });
        })
    }

    fn prepare(&self, call: Arc<RunCall>) -> Box<dyn RunInProgress> {
        if ProgramPlan::suits_cpu(&call, &self.model) {
            return self.host.prepare(call);
        }
        let plan = ProgramPlan::on_gpu(&call, &self.model);
        let target = SpreadTarget {
            pool: &self.pool,
            model: &self.model,
            host: &self.host,
            policy: self.pool.settings().spread,
        };
        match spread::divide(&target, &call, &plan) {
            Ok(Some(run)) => return run,
            Ok(None) => {}
            Err(error) => warn!(%error, "a call cannot be divided"),
        }
        Box::new(WorkerRun::new(self.pool.clone(), self.host.clone(), call, plan))
    }

    fn msm_batch_scalars_max(&self) -> usize {
        MSM_BATCH_SCALARS_MAX
    }
}

impl PointChecker for WorkerExecutor {
    fn piece_len(&self, _: Group, encoding: PointEncoding, count: usize) -> Option<usize> {
        checked_piece_len(encoding, count)
    }

    fn check(
        &self,
        encoding: PointEncoding,
        bytes: &[u8],
        out: PointsMut<'_>,
    ) -> Result<Result<(), BadElement>> {
        match out {
            PointsMut::G1(out) => self.check_points::<G1Affine>(encoding, bytes, out),
            PointsMut::G2(out) => self.check_points::<G2Affine>(encoding, bytes, out),
        }
    }
}

/// Memory that the workers map until this is dropped.
pub struct MemoryShare {
    pool: Arc<WorkerPool>,
    id: u64,
}

impl MemoryShare {
    /// Lets all workers map `memory`, and their devices access its first `pinned_bytes` bytes.
    pub fn new(pool: &Arc<WorkerPool>, memory: &Arc<SharedMemory>, pinned_bytes: u64) -> Self {
        pool.memories().add(memory, pinned_bytes, || pool.live());
        Self { pool: pool.clone(), id: memory.id() }
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.pool.memories().remove(self.id, || self.pool.live());
    }
}
