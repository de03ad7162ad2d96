//! Calls on worker processes, one of which ends in the middle. The server's side is the real one.
//! A worker is a real process with the protocol's messages, but without a GPU: it is this program,
//! which runs [`worker_process`].

use std::{
    collections::HashMap,
    env, io,
    os::{fd::AsFd, unix::net::UnixStream},
    process::{Child, exit},
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use capstan::{
    curve::Fr,
    device::DeviceLimits,
    engine::{ExecutedBy, JobControl, MsmNttEngine, cpu::CpuEngine, cuda::GpuFacts},
    error::{EngineError, Result},
    exec::{
        HostExecutor, ModelledTime, OutputWrites, ProgramPlan, RunCall, RunInProgress, RunOperands,
        RunReport, StepReport,
    },
    field::FieldId,
    ops::{OperationProgram, PowersStep},
    program::{OutputKind, OutputSpec, ValueId},
    worker::{
        SpreadPolicy, WorkerCommand, WorkerPoolSettings, WorkerSettings,
        failure::WorkerFailure,
        message::{
            AdvanceRequest, Advanced, ControlReply, ControlRequest, LaneOutcome, LaneReply,
            LaneRequest, RunState, ServeTask, WorkerTask,
        },
        pool::WorkerPool,
        process::StartedWorker,
        run::WorkerRun,
        socket::{self, Received},
    },
};
use shuttle::{
    rand::Rng,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use crate::check_fewer;

/// The test that is a worker.
const WORKER_PROCESS: &str = "workers::worker_process";
/// Requests of a run, unless it begins again.
const REQUESTS: u32 = 3;
/// More requests than all calls of a model make.
const LIVES_ON: u32 = 1000;
/// A worker with this bit in its number does not end at the request, but answers nonsense.
const LIES: u32 = 1 << 16;

/// The worker process, if a model has started this program for it alone. The number of its device
/// says how many requests it answers.
#[test]
fn worker_process() {
    if env::args().any(|argument| argument == WORKER_PROCESS) {
        let _no_server = serve();
    }
}

fn serve() -> io::Result<()> {
    let control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let WorkerTask::Serve(task) = socket::receive(&control)?.message else { return Ok(()) };
    let (lives_for, lies) = (task.device & !LIES, task.device & LIES != 0);
    let runs = HashMap::new();
    let served = Arc::new(Mutex::new(Served { lives_for, lies, requests: 0, runs }));
    loop {
        let Received { message, file } = socket::receive(&control)?;
        if let (ControlRequest::OpenLane, Some(lane)) = (&message, file) {
            let served = served.clone();
            std::thread::spawn(move || serve_lane(&lane.into(), &served));
        }
        socket::send(&control, &ControlReply::Done, None)?;
    }
}

struct Served {
    lives_for: u32,
    lies: bool,
    requests: u32,
    /// Requests of each run.
    runs: HashMap<u64, u32>,
}

fn serve_lane(lane: &UnixStream, served: &Mutex<Served>) -> io::Result<()> {
    loop {
        let LaneRequest::Advance(request) = socket::receive(lane)?.message else { return Ok(()) };
        let outcome = served.lock().expect("no panic").advance(*request);
        socket::send(lane, &LaneReply { outcome, faults: vec![] }, None)?;
    }
}

impl Served {
    fn advance(
        &mut self,
        AdvanceRequest { run, begin, yields, .. }: AdvanceRequest,
    ) -> LaneOutcome {
        self.requests += 1;
        let is_last = self.requests > self.lives_for;
        if is_last && !self.lies {
            exit(1);
        }
        let known = self.runs.get(&run).copied();
        let requests = match (known, begin) {
            (None, Some(_)) => 1,
            (Some(requests), None) => requests + 1,
            _ => {
                return LaneOutcome::Failed(WorkerFailure::Engine(EngineError::Internal(
                    "begun twice".into(),
                )));
            }
        };
        self.runs.insert(run, requests);
        let state = match requests {
            REQUESTS => RunState::Done(Box::new(finished(yields))),
            _ => RunState::Awaits(None),
        };
        let longest_step = if is_last { u32::MAX } else { 0 };
        let (modelled_total, written, early_sums) = (Duration::ZERO, vec![], vec![]);
        LaneOutcome::Advanced(Advanced { modelled_total, longest_step, written, early_sums, state })
    }
}

/// The device name in reports: it tells whether the last request said that the run yields.
fn device_name(yields: bool) -> &'static str {
    if yields { "yielding" } else { "hurrying" }
}

fn finished(yields: bool) -> RunReport {
    let device = device_name(yields).into();
    let executor = ExecutedBy { engine: "cuda", device, ..ExecutedBy::default() };
    RunReport { points: vec![None], steps: vec![StepReport::not_run("powers")], executor }
}

fn settings() -> WorkerPoolSettings {
    let arguments = ["--exact", WORKER_PROCESS, "--nocapture"];
    let program = env::current_exe().expect("this program");
    let worker = WorkerSettings {
        is_restricted: true,
        driver: None,
        memory_percent: 1,
        timeout: Duration::from_secs(60),
        msm_scalars_min: 0,
        ntt_elements_min: 0,
        threads: 1,
        busy_poll: Duration::ZERO,
    };
    let command = WorkerCommand { program, arguments: arguments.map(Into::into).to_vec() };
    WorkerPoolSettings { command, devices: vec![], worker, spread: SpreadPolicy::default() }
}

fn facts(index: u32) -> GpuFacts {
    let (name, limits) = (String::new(), DeviceLimits::H200);
    GpuFacts { index, name, limits, memory_bytes: 0, arena_bytes: 0 }
}

/// A worker that ends at one of its first `requests` requests, or answers it with nonsense.
fn faulty(requests: u32) -> u32 {
    let mut random = shuttle::rand::thread_rng();
    random.gen_range(0..requests) | if random.gen_bool(0.5) { LIES } else { 0 }
}

/// Starts a worker that ends at a request, and lets it serve.
fn start(pool: &WorkerPool, slot: usize, lives_for: u32) -> Child {
    let settings = pool.settings();
    let settings_of_worker = settings.worker.clone();
    let task = ServeTask { device: lives_for, arena_bytes_min: None, settings: settings_of_worker };
    let task = WorkerTask::Serve(Box::new(task));
    let started = StartedWorker::start(&settings.command, &task).expect("a process");
    pool.publish(slot, started.into_ready(facts(slot as u32), &settings.worker)).child
}

fn engine() -> Arc<dyn MsmNttEngine> {
    static ENGINE: OnceLock<Arc<CpuEngine>> = OnceLock::new();
    ENGINE.get_or_init(|| Arc::new(CpuEngine::new(1).expect("a thread"))).clone()
}

fn run(pool: &Arc<WorkerPool>) -> WorkerRun {
    let step = PowersStep {
        field: FieldId::Bls12381Fr,
        base: Fr::from(2).into(),
        first: Fr::from(1).into(),
        length: 4,
    };
    let program = Arc::new(OperationProgram::new(vec![step.into()]).expect("a program"));
    let output = OutputSpec { value: ValueId(0), kind: OutputKind::Elements };
    let call = RunCall::new(program, &[], &[output], false).expect("a call");
    let plan = ProgramPlan {
        memory_bytes: 0,
        value_bytes: 0,
        largest: ValueId(0),
        modelled: ModelledTime { total: Duration::from_micros(1), longest: ValueId(0) },
        msm_vectors: None,
        writes: OutputWrites::AfterStep,
    };
    let host = HostExecutor { engine: engine(), oracle: None };
    WorkerRun::new(pool.clone(), host, Arc::new(call), plan)
}

/// Steps a run to its end.
fn compute(pool: &Arc<WorkerPool>) -> Result<RunReport> {
    let operands = RunOperands { sinks: &[None], ..RunOperands::default() };
    let (mut run, control) = (run(pool), JobControl::default());
    loop {
        let yields = shuttle::rand::thread_rng().r#gen();
        control.set_yielding(yields);
        if let Some(report) = run.step(&operands, &control)? {
            assert_eq!(report.executor.device, device_name(yields));
            let again = run.step(&operands, &control).err();
            assert!(matches!(again, Some(EngineError::Internal(_))), "a run ends once");
            return Ok(report);
        }
    }
}

/// Replaces the worker of a slot when it has ended, until `is_over`. Returns the last process.
fn supervise(pool: &WorkerPool, mut child: Child, lives: &[u32], is_over: &AtomicBool) -> Child {
    let mut lives = lives.iter();
    while !is_over.load(Ordering::SeqCst) {
        if child.try_wait().expect("a process").is_some() {
            pool.mark_lost(0);
            child = start(pool, 0, *lives.next().unwrap_or(&LIVES_ON));
        }
        thread::yield_now();
    }
    child
}

fn end(pool: &WorkerPool, children: impl IntoIterator<Item = Child>) {
    pool.close();
    assert!(pool.live().is_empty(), "a closed pool has workers");
    for mut child in children {
        child.wait().expect("killed");
    }
}

#[test]
fn a_call_whose_worker_ends_begins_again_and_ends_once() {
    engine();
    check_fewer(|| {
        let pool = Arc::new(WorkerPool::new(settings(), vec![facts(0), facts(1)], 0));
        let first = start(&pool, 0, faulty(2 * REQUESTS));
        let other = start(&pool, 1, LIVES_ON);
        let is_over = Arc::new(AtomicBool::new(false));
        let supervisor = {
            let (pool, is_over) = (pool.clone(), is_over.clone());
            thread::spawn(move || supervise(&pool, first, &[], &is_over))
        };
        let calls = [(); 2].map(|()| {
            let pool = pool.clone();
            thread::spawn(move || compute(&pool))
        });
        for call in calls {
            let report = call.join().unwrap().expect("one lost worker costs no call");
            assert_eq!((report.steps.len(), report.executor.engine), (1, "cuda"));
        }
        is_over.store(true, Ordering::SeqCst);
        let replaced = supervisor.join().unwrap();
        end(&pool, [replaced, other]);
    });
}

#[test]
fn a_call_that_loses_two_workers_is_refused() {
    engine();
    check_fewer(|| {
        let pool = Arc::new(WorkerPool::new(settings(), vec![facts(0)], 0));
        let lives = [(); 2].map(|()| faulty(REQUESTS));
        let first = start(&pool, 0, lives[0]);
        let is_over = Arc::new(AtomicBool::new(false));
        let supervisor = {
            let (pool, is_over) = (pool.clone(), is_over.clone());
            thread::spawn(move || supervise(&pool, first, &lives[1..], &is_over))
        };
        let call = {
            let pool = pool.clone();
            thread::spawn(move || compute(&pool).map(drop))
        };
        match call.join().unwrap() {
            Err(EngineError::LostTwice) => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(compute(&pool).map(drop), Ok(()), "the next call runs on the next worker");
        is_over.store(true, Ordering::SeqCst);
        let last = supervisor.join().unwrap();
        end(&pool, [last]);
    });
}
