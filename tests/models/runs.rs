//! The runs of a worker process, which the server advances on lanes, cancels and gives up.

use std::{panic::resume_unwind, sync::Arc, time::Duration};

use capstan::{
    curve::scalars::ScalarEncoding,
    engine::{DeviceInfo, JobControl, MsmNttEngine},
    error::{EngineError, Result},
    exec::{
        AwaitedElements, Executor, ModelledTime, OutputWrites, ProgramPlan, RunCall, RunInProgress,
        RunOperands, RunReport,
    },
    field::FieldId,
    ops::{InputStep, OperationProgram},
    program::{InputSpec, OutputKind, OutputSpec, ValueId},
    worker::{
        failure::WorkerFailure,
        message::{Advanced, CallToRun, NamedObjects, PlacedOutput, RunState},
        running::{RunningCall, RunningObjects, Runs},
    },
};
use shuttle::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use crate::check;

/// Steps of a run; each is advanced by its own request.
const STEPS: u64 = 3;
const RUN: u64 = 7;

#[derive(Default)]
struct Counts {
    begun: AtomicUsize,
    stepping: AtomicUsize,
    dropped: AtomicUsize,
}

/// Makes runs that take [`STEPS`] requests.
struct SteppingExecutor {
    counts: Arc<Counts>,
    /// The run panics at its last step.
    panics: bool,
}

struct SteppingRun {
    counts: Arc<Counts>,
    panics: bool,
    plan: ProgramPlan,
    steps: u64,
}

impl Executor for SteppingExecutor {
    fn description(&self) -> DeviceInfo {
        unreachable!("not asked for")
    }

    fn oracle(&self) -> Option<Arc<dyn MsmNttEngine>> {
        None
    }

    fn prepare(&self, _: Arc<RunCall>) -> Box<dyn RunInProgress> {
        self.counts.begun.fetch_add(1, Ordering::SeqCst);
        let plan = ProgramPlan {
            memory_bytes: 0,
            value_bytes: 0,
            largest: ValueId(0),
            modelled: ModelledTime { total: Duration::ZERO, longest: ValueId(0) },
            msm_vectors: None,
            writes: OutputWrites::AfterStep,
        };
        Box::new(SteppingRun { counts: self.counts.clone(), panics: self.panics, plan, steps: 0 })
    }
}

impl RunInProgress for SteppingRun {
    fn plan(&self) -> &ProgramPlan {
        &self.plan
    }

    fn awaited(&self) -> Option<AwaitedElements> {
        None
    }

    fn step(&mut self, _: &RunOperands<'_>, control: &JobControl) -> Result<Option<RunReport>> {
        let stepping = self.counts.stepping.fetch_add(1, Ordering::SeqCst);
        assert_eq!(stepping, 0, "two lanes advance one run");
        thread::yield_now();
        self.counts.stepping.fetch_sub(1, Ordering::SeqCst);
        control.check()?;
        self.steps += 1;
        if self.panics && self.steps == STEPS {
            // Without a report on standard error.
            resume_unwind(Box::new("the run was told to panic"));
        }
        // A run whose modelled time changes answers at once.
        self.plan.modelled.total += Duration::from_secs(1);
        Ok((self.steps == STEPS).then(RunReport::default))
    }
}

impl Drop for SteppingRun {
    fn drop(&mut self) {
        self.counts.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

fn objects() -> RunningObjects {
    RunningObjects { bases: vec![], matrices: vec![] }
}

fn call() -> CallToRun {
    let step = InputStep { field: FieldId::Bls12381Fr, rows: 1, length: 4 };
    let spec = InputSpec::new(ScalarEncoding::Canonical, 4);
    let output = OutputSpec { value: ValueId(0), kind: OutputKind::Elements };
    CallToRun {
        program: OperationProgram::new(vec![step.into()]).expect("a program").into(),
        inputs: vec![spec],
        outputs: vec![PlacedOutput { spec: output, vector: None, is_early: false }],
        objects: NamedObjects::default(),
        is_checked: false,
        time_left: None,
        time_on_host_max: Duration::MAX,
    }
}

/// What the worker does with a request on a lane.
fn advance(
    runs: &Runs,
    executor: &SteppingExecutor,
    is_first: bool,
) -> Result<Advanced, WorkerFailure> {
    let begin = || RunningCall::begin(executor, call(), objects(), &|_| None);
    let advanced =
        runs.advance(RUN, is_first.then_some(begin), |run| run.advance(&[], &|_| None))?;
    let is_over = matches!(advanced.advanced.state, RunState::Done(_));
    assert!(!is_over || advanced.ended.is_some(), "a run that has ended stays in the table");
    Ok(advanced.advanced)
}

/// Advances a run until it ends. Returns the number of requests.
fn advance_to_the_end(runs: &Runs, executor: &SteppingExecutor) -> Result<u64, WorkerFailure> {
    let mut requests = 1;
    let mut advanced = advance(runs, executor, true)?;
    while let RunState::Awaits(_) = advanced.state {
        requests += 1;
        advanced = advance(runs, executor, false)?;
    }
    Ok(requests)
}

/// Asserts that nothing of the run is left, once the wiper has ended.
fn assert_gone(runs: Arc<Runs>, executor: &SteppingExecutor) {
    let unknown = advance(&runs, executor, false).err();
    assert!(
        matches!(unknown, Some(WorkerFailure::Engine(EngineError::Internal(_)))),
        "the run is still known"
    );
    drop(runs);
    let Counts { begun, dropped, .. } = &*executor.counts;
    while dropped.load(Ordering::SeqCst) < begun.load(Ordering::SeqCst) {
        thread::yield_now();
    }
    assert_eq!(dropped.load(Ordering::SeqCst), 1, "dropped twice");
}

fn new_run(panics: bool) -> (Arc<Runs>, Arc<SteppingExecutor>) {
    (Arc::default(), Arc::new(SteppingExecutor { counts: Arc::default(), panics }))
}

#[test]
fn a_run_is_advanced_cancelled_or_ended_but_never_left() {
    check(|| {
        let (runs, executor) = new_run(false);
        let lane = {
            let (runs, executor) = (runs.clone(), executor.clone());
            thread::spawn(move || advance_to_the_end(&runs, &executor))
        };
        let control = {
            let runs = runs.clone();
            thread::spawn(move || (0..2).for_each(|_| runs.cancel(RUN)))
        };
        control.join().unwrap();
        match lane.join().unwrap() {
            Ok(requests) => assert_eq!(requests, STEPS),
            Err(failure) => assert_eq!(failure, WorkerFailure::Engine(EngineError::Cancelled)),
        }
        assert_gone(runs, &executor);
    });
}

/// The server drops a run that has begun, while a lane may still have it, and asks no more.
#[test]
fn a_run_that_the_server_gives_up_is_dropped_once() {
    check(|| {
        let (runs, executor) = new_run(false);
        advance(&runs, &executor, true).expect("the first step");
        let lane = {
            let (runs, executor) = (runs.clone(), executor.clone());
            thread::spawn(move || advance(&runs, &executor, false))
        };
        let control = {
            let runs = runs.clone();
            thread::spawn(move || runs.drop_run(RUN))
        };
        control.join().unwrap();
        match lane.join().unwrap() {
            Ok(_)
            | Err(
                WorkerFailure::Engine(EngineError::Cancelled)
                | WorkerFailure::Engine(EngineError::Internal(_)),
            ) => {}
            Err(other) => panic!("{other:?}"),
        }
        assert_gone(runs, &executor);
    });
}

#[test]
fn a_run_that_panics_leaves_the_table() {
    check(|| {
        let (runs, executor) = new_run(true);
        let lane = {
            let (runs, executor) = (runs.clone(), executor.clone());
            thread::spawn(move || advance_to_the_end(&runs, &executor))
        };
        let control = {
            let runs = runs.clone();
            thread::spawn(move || runs.cancel(RUN))
        };
        control.join().unwrap();
        let failure = lane.join().unwrap().expect_err("it panics or is cancelled");
        assert!(matches!(
            failure,
            WorkerFailure::Engine(EngineError::Internal(_))
                | WorkerFailure::Engine(EngineError::Cancelled)
        ));
        assert_gone(runs, &executor);
    });
}
