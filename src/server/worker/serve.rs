//! A worker process: opens one GPU, and computes what the server asks for over its socket.

use std::{
    collections::HashMap,
    io,
    os::{fd::OwnedFd, unix::net::UnixStream},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex, RwLock};
use tracing::{debug, debug_span, warn};

use super::{
    failure::WorkerFailure,
    mapped::MappedMemory,
    mapped_objects::MappedObjects,
    message::{
        AdvanceRequest, ControlReply, ControlRequest, DeviceReading, HUNG_GPU, LOST_GPU,
        LaneOutcome, LaneReply, LaneRequest, MapRequest, PointsRequest, ServeTask, WorkerHello,
        WorkerTask,
    },
    residency, restricted,
    running::{AdvancedCall, RunningCall, Runs},
    socket::{self, Received},
    watch,
};
use crate::{
    curve::{
        G1Affine, G2Affine, Group,
        layout::points_as_bytes,
        points::{BadElement, CurvePoint},
    },
    device::{CudaDriver, DevicePolicy, SERVER_MEMORY_WAIT},
    engine::{
        DeviceInfo, PointChecker,
        cpu::CpuEngine,
        cuda::{
            CudaEngine, DeviceFault, DeviceSelection, FaultClass, GpuFacts, GpuPolicy,
            GpuUnavailable, OpenOptions, exit_without_handlers, open,
        },
    },
    error::{EngineError as Error, EngineResult as Result, InputError},
    exec::{BusyPoll, Executor, GpuExecutor},
    region::SharedMemory,
};

/// Within this time, a thread that has seen a fatal fault has ended the process.
const REPORT_TIME: Duration = Duration::from_secs(1);

struct Worker {
    engine: Arc<CudaEngine>,
    executor: GpuExecutor,
    memories: RwLock<HashMap<u64, Arc<MappedMemory>>>,
    objects: MappedObjects,
    runs: Runs,
    releases: Releases,
    faults: Arc<SeenFaults>,
    busy_poll: BusyPoll,
    /// Requests that have no answer yet.
    answering: AtomicUsize,
}

/// The ended runs that have been answered and still hold memory on the GPU.
#[derive(Default)]
struct Releases {
    under_way: Mutex<usize>,
    done: Condvar,
}

/// What a lane answers, with the run that has ended.
struct LaneAnswer {
    outcome: LaneOutcome,
    ended: Option<Box<RunningCall>>,
}

/// The faults that the device has reported since the last report to the server.
#[derive(Default)]
struct SeenFaults {
    classes: Mutex<Vec<FaultClass>>,
    /// False while the device is opened and tested, which fails if there is a fault.
    is_serving: AtomicBool,
}

/// Serves until the server closes the socket.
///
/// Errors: those of the socket.
pub fn serve(socket: &UnixStream) -> io::Result<()> {
    let task = match watch::receive_task(socket.try_clone()?)? {
        WorkerTask::CountDevices(driver) => {
            let count =
                CudaDriver::load(driver.as_deref()).and_then(|driver| driver.device_count());
            let hello = count.map_or_else(unusable, WorkerHello::Counted);
            return socket::send(socket, &hello, None);
        }
        WorkerTask::Serve(task) => task,
    };
    // Threads inherit it, so it comes before the driver.
    let has_few_files = task.settings.is_restricted
        && restricted::restrict_files(task.settings.driver.as_deref())
            .inspect_err(|error| warn!(%error, "the files of this worker are not restricted"))
            .is_ok();
    let worker = match Worker::open(&task, has_few_files) {
        Ok(worker) => Arc::new(worker),
        Err(hello) => return socket::send(socket, &hello, None),
    };
    let hello = WorkerHello::Ready(Box::new(worker.facts().clone()));
    socket::send(socket, &hello, None)?;
    loop {
        let Received { message, file } = match socket::receive(socket) {
            Ok(received) => received,
            // The server has gone.
            Err(_) => exit_without_handlers(0),
        };
        let reply = worker.control(message, file).unwrap_or_else(ControlReply::Failed);
        if socket::send(socket, &reply, None).is_err() {
            exit_without_handlers(0);
        }
    }
}

fn unusable(unavailable: GpuUnavailable) -> WorkerHello {
    let is_on_a_gpu_host = unavailable.is_on_a_gpu_host();
    // The server adds the device's number.
    let reason = match unavailable.left_out() {
        [only] => only.reason.to_string(),
        _ => unavailable.to_string(),
    };
    WorkerHello::Unusable { reason, is_on_a_gpu_host }
}

impl Worker {
    /// `has_few_files`: whether its files are restricted.
    fn open(task: &ServeTask, has_few_files: bool) -> Result<Self, WorkerHello> {
        let &ServeTask { device, arena_bytes_min, ref settings } = task;
        let failed = |error: Error| WorkerHello::Unusable {
            reason: error.to_string(),
            is_on_a_gpu_host: true,
        };
        let cpu = CpuEngine::new(settings.threads).map_err(failed)?;
        let selection = DeviceSelection { driver: settings.driver.clone(), devices: vec![device] };
        let faults = Arc::<SeenFaults>::default();
        let seen = faults.clone();
        let options = OpenOptions {
            memory_percent: settings.memory_percent,
            memory_wait: SERVER_MEMORY_WAIT,
            arena_bytes_min,
            timeout: settings.timeout,
            on_fault: Arc::new(move |fault| seen.add(fault)),
            policy: DevicePolicy::default(),
        };
        let policy = GpuPolicy {
            msm_scalars_min: settings.msm_scalars_min,
            ntt_elements_min: settings.ntt_elements_min,
            ..GpuPolicy::default()
        };
        let opened = open(&selection, &options).map_err(unusable)?;
        let loaded = CudaEngine::load(cpu, opened, policy);
        if settings.is_restricted {
            // Before the self-test, so that a driver that needs another call is not used.
            restricted::restrict_calls(has_few_files).unwrap_or_else(
                |error| warn!(%error, "system calls of this worker are not restricted"),
            );
        }
        let engine = Arc::new(loaded.with_tested_gpus().map_err(unusable)?);
        let executor = GpuExecutor::new(engine.clone(), None);
        faults.is_serving.store(true, Ordering::Release);
        let (memories, objects, runs, releases) = Default::default();
        let busy_poll = BusyPoll::new(settings.busy_poll);
        let answering = AtomicUsize::new(0);
        Ok(Self {
            engine,
            executor,
            memories,
            objects,
            runs,
            releases,
            faults,
            busy_poll,
            answering,
        })
    }

    /// The GPU with current readings.
    fn device(&self) -> Option<DeviceReading> {
        self.engine.devices().into_iter().find_map(|device| {
            let DeviceInfo { name, units, memory_bytes, gpu, .. } = device;
            Some(DeviceReading { name, units, memory_bytes, gpu: gpu? })
        })
    }

    fn facts(&self) -> &GpuFacts {
        &self.engine.model().gpus[0]
    }

    fn control(
        self: &Arc<Self>,
        request: ControlRequest,
        file: Option<OwnedFd>,
    ) -> Result<ControlReply, String> {
        let file = || file.ok_or_else(|| "the request needs a descriptor".to_owned());
        match request {
            ControlRequest::OpenLane => self.open_lane(file()?.into())?,
            ControlRequest::Map(request) => self.map(&request, file()?)?,
            ControlRequest::Unmap(memory) => drop(self.memories.write().remove(&memory)),
            ControlRequest::MapObject(request) => self.objects.map(&request, file()?)?,
            ControlRequest::DropObject(object) => self.objects.unmap(object),
            ControlRequest::Cancel(run) => self.runs.cancel(run),
            ControlRequest::DropRun(run) => self.runs.drop_run(run),
            ControlRequest::Ping => {}
            ControlRequest::Describe => {
                let reading = self.device().ok_or("there is no reading")?;
                return Ok(ControlReply::Described(Box::new(reading)));
            }
            ControlRequest::ListBases => {
                let executor = &self.executor;
                let device = self.facts().index;
                return Ok(ControlReply::Bases(residency::list(executor, device, &self.objects)));
            }
            ControlRequest::EvictSuspects(objects) => {
                residency::evict_suspects(&self.executor, &self.objects, &objects);
            }
        }
        Ok(ControlReply::Done)
    }

    fn open_lane(self: &Arc<Self>, lane: UnixStream) -> Result<(), String> {
        let worker = self.clone();
        let serve = move || {
            if let Err(error) = worker.serve_lane(&lane) {
                debug!(%error, "a lane ended");
            }
        };
        let thread = thread::Builder::new().name("capstan-lane".into()).spawn(serve);
        thread.map(drop).map_err(|error| error.to_string())
    }

    fn map(&self, request: &MapRequest, file: OwnedFd) -> Result<(), String> {
        let &MapRequest { memory: number, bytes, pinned_bytes, access, is_watched } = request;
        let memory = SharedMemory::map_sparse(file, bytes as usize, access);
        let memory = if is_watched { memory.and_then(SharedMemory::watched) } else { memory };
        let memory = memory.map_err(|error| error.to_string())?;
        let begun = Instant::now();
        let memory = Arc::new(memory);
        let pinning = match pinned_bytes {
            0 => None,
            bytes => self.executor.share_memory(&memory, bytes as usize),
        };
        let bytes = memory.pinned_bytes();
        let ms = begun.elapsed().as_millis() as u64;
        debug!(bytes, ms, "pinned memory of the daemon");
        self.memories.write().insert(number, Arc::new(MappedMemory { _pinning: pinning, memory }));
        Ok(())
    }

    fn serve_lane(&self, lane: &UnixStream) -> io::Result<()> {
        loop {
            if self.answering.load(Ordering::Relaxed) == 0 {
                self.busy_poll.wait(|| socket::is_readable(lane));
            }
            let Received { message, .. } = match socket::receive(lane) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                received => received?,
            };
            let answer = AssertUnwindSafe(|| self.answer(message));
            let panicked = |_| Err(WorkerFailure::Engine(Error::Internal("a job panicked".into())));
            self.answering.fetch_add(1, Ordering::Relaxed);
            let answer = catch_unwind(answer).unwrap_or_else(panicked);
            self.answering.fetch_sub(1, Ordering::Relaxed);
            let (outcome, ended) = match answer {
                Ok(LaneAnswer { outcome, ended }) => (outcome, ended),
                Err(WorkerFailure::Engine(Error::DeviceLost)) => SeenFaults::end_after(REPORT_TIME),
                Err(failure) => (LaneOutcome::Failed(failure), None),
            };
            let faults = std::mem::take(&mut *self.faults.classes.lock());
            let reply = LaneReply { outcome, faults };
            match ended {
                None => socket::send(lane, &reply, None)?,
                Some(run) => {
                    self.releases.release_after(run, || socket::send(lane, &reply, None))?
                }
            }
        }
    }

    fn answer(&self, request: LaneRequest) -> Result<LaneAnswer, WorkerFailure> {
        if !matches!(&request, LaneRequest::Advance(request) if request.begin.is_none()) {
            self.releases.wait();
        }
        match request {
            LaneRequest::Advance(request) => {
                let AdvancedCall { advanced, ended } = self.advance(*request)?;
                Ok(LaneAnswer { outcome: LaneOutcome::Advanced(advanced), ended })
            }
            LaneRequest::CheckPoints(request) => {
                let outcome = LaneOutcome::Checked(self.check_points(&request)?);
                Ok(LaneAnswer { outcome, ended: None })
            }
            LaneRequest::SetResidency(request) => {
                let device = self.facts().index;
                let changed = residency::set(&self.executor, device, &self.objects, &request)?;
                Ok(LaneAnswer { outcome: LaneOutcome::Residency(changed), ended: None })
            }
        }
    }

    fn advance(&self, request: AdvanceRequest) -> Result<AdvancedCall, WorkerFailure> {
        let AdvanceRequest { run, begin, arrived, yields } = request;
        let find = |number: u64| self.memories.read().get(&number).cloned();
        let begin = begin.map(|call| {
            move || {
                let objects = self.objects.find(&call.objects)?;
                RunningCall::begin(&self.executor, call, objects, &find)
            }
        });
        let _in_span = debug_span!("run", number = run).entered();
        self.runs.advance(run, begin, |call| {
            call.control().set_yielding(yields);
            call.advance(&arrived, &find)
        })
    }

    /// Returns the number of bytes that were written.
    fn check_points(&self, request: &PointsRequest) -> Result<Result<u64, BadElement>> {
        match request.group {
            Group::G1 => self.check_group_points::<G1Affine>(request),
            Group::G2 => self.check_group_points::<G2Affine>(request),
        }
    }

    fn check_group_points<A: CurvePoint>(
        &self,
        request: &PointsRequest,
    ) -> Result<Result<u64, BadElement>> {
        let PointsRequest { encoding, from, to, .. } = request;
        let missing = || Error::Internal("memory is not mapped".into());
        let find = |number| self.memories.read().get(&number).cloned().ok_or_else(missing);
        let (source, destination) = (find(from.memory)?, find(to.memory)?);
        let mut bytes = vec![0; from.len as usize];
        source.memory.read(from.start as usize, &mut bytes);
        if !source.memory.is_intact() {
            return Err(InputError::released_pages().into());
        }
        let mut points = vec![A::zero(); bytes.len() / encoding.point_bytes(A::GROUP)];
        let checked = self.engine.check(*encoding, &bytes, A::points_mut(&mut points))?;
        let decoded = points_as_bytes(&points);
        if decoded.len() as u64 != to.len {
            return Err(Error::Internal("decoded points do not fit their memory".into()));
        }
        Ok(checked.map(|()| {
            destination.memory.write(to.start as usize, decoded);
            to.len
        }))
    }
}

impl Releases {
    /// Releases what an ended run holds, after `send`, so that the server need not wait for it.
    fn release_after<T>(&self, run: Box<RunningCall>, send: impl FnOnce() -> T) -> T {
        *self.under_way.lock() += 1;
        let sent = send();
        // A panic is reported by its hook.
        let _released = catch_unwind(AssertUnwindSafe(|| drop(run)));
        *self.under_way.lock() -= 1;
        self.done.notify_all();
        sent
    }

    /// Waits until no run holds memory whose end the server may know of.
    fn wait(&self) {
        let mut under_way = self.under_way.lock();
        self.done.wait_while(&mut under_way, |count| *count > 0);
    }
}

impl SeenFaults {
    /// Notes a fault for the server. After a fatal one, the process ends: it cannot use the GPU
    /// again, and its end tells the server.
    fn add(&self, fault: &DeviceFault) {
        let class = fault.class();
        self.classes.lock().push(class);
        if class == FaultClass::Fatal && self.is_serving.load(Ordering::Acquire) {
            let hangs = matches!(fault, DeviceFault::Hang(_));
            exit_without_handlers(if hangs { HUNG_GPU } else { LOST_GPU });
        }
    }

    /// Ends the process after a fault, unless the thread that reports it has done so: an answer
    /// would refuse a run that can begin again on another worker.
    fn end_after(reporter: Duration) -> ! {
        thread::sleep(reporter);
        exit_without_handlers(LOST_GPU)
    }
}
