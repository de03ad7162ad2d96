//! Workers whose driver fails at any call, and a worker whose kernel never ends: each call of a
//! client gets the right result or a documented refusal, and the daemon goes on with its GPUs.
//!
//! Seeds choose the call that fails, and its error, among all calls that a worker makes: those of
//! jobs, those of the start of a daemon's worker, and those of the start of its successor.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use ark_ec::VariableBaseMSM as _;
use capstan::{
    client::{
        BasesHandle, BigUint, ClientProgram, NttOptions, NttTransform, PointsValue, ProgramBuilder,
        ProgramRun, RunOptions, VectorValue, blocking::BlockingClient,
    },
    curve::{G1Affine, G1Projective},
    gf2::{BitMatrix, echelon},
};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use rustix::process::{Signal, kill_process};

use crate::{
    daemon::stop,
    eliminations::matrix,
    faulty_daemon::FaultyDaemon,
    seeded_faults::{COUNTED, JobCalls, SeededFault, seeds},
    sweep,
    workers::{Expected, N, RESTARTS, SetOnDrop, USED, wait_until, workers},
};

/// The number of seeds of a test: one for each kind of call. Each worker starts with a self-test.
const SEEDS: u64 = 3;

/// A daemon serves for this many seeds: a GPU that loses more workers is put into quarantine.
const SEEDS_OF_A_DAEMON: u64 = 4;

/// A fault that no worker reaches before it serves.
const COUNTED_START: &str = "any@0:2000000000:700";

/// Lines of the log.
const INJECTED: &[&str] = &["fault injected into"];
const NOT_STARTED: [&str; 2] =
    ["a worker cannot be started", "a worker that was started early is started again"];

/// Calls that a worker can do without: it copies through other memory, or reports no address.
const OPTIONAL: [&str; 2] = ["cuMemHostRegister", "cuDeviceGetPCIBusId"];

/// The limit on a kernel that hangs: long enough for other work on a loaded machine.
const HANG_LIMIT_MS: &str = "15000";

/// Programs with their inputs and right results.
struct SeededJobs {
    expected: Expected,
    /// The sum of the points, each times the square of the transform's value.
    sum_of_squares: G1Projective,
    matrix: BitMatrix,
    echelon: BitMatrix,
    factors: [BigUint; 2],
}

/// A transform, the squares of its values, and an MSM by them.
struct Squares {
    program: ClientProgram,
    input: VectorValue,
    sum: PointsValue<G1Affine>,
}

impl Squares {
    fn new(bases: &BasesHandle<G1Affine>) -> Self {
        let mut program = ProgramBuilder::new();
        let input = program.input(N as u64).unwrap();
        let transformed = program.ntt(input, NttTransform::forward()).unwrap();
        let squares = program.multiply(transformed, transformed).unwrap();
        let sum = program.msm(bases, squares).unwrap();
        Self { program: program.build().unwrap(), input, sum }
    }
}

impl SeededJobs {
    fn new() -> Self {
        let (expected, mut rng) = (Expected::new(), StdRng::seed_from_u64(6));
        let squares: Vec<_> = expected.transformed.iter().map(|value| value * value).collect();
        let sum_of_squares = G1Projective::msm(&expected.points, &squares).unwrap();
        let matrix = matrix(70, 200, |_, _| rng.random_bool(0.5));
        let echelon = echelon(matrix.clone(), &|_| true).unwrap().matrix;
        // Shorter ones would be multiplied by the CPU.
        let mut integer = || BigUint::new((0..2000).map(|_| rng.random()).collect());
        let factors = [integer(), integer()];
        Self { expected, sum_of_squares, matrix, echelon, factors }
    }

    /// Runs each job once, beginning with number `first`.
    fn run(
        &self,
        daemon: &FaultyDaemon,
        bases: &BasesHandle<G1Affine>,
        first: u64,
        fault: &SeededFault,
    ) {
        let client = daemon.client();
        for job in first..first + 5 {
            match job % 5 {
                0 => {
                    let sum = fault.check("MSM", client.msm(bases, &self.expected.scalars));
                    assert!(sum.is_none_or(|sum| sum == self.expected.sum), "a wrong sum");
                }
                1 => self.transform(&client, fault),
                2 => {
                    let Squares { program, input, sum } = Squares::new(bases);
                    let run = ProgramRun::new(&program).input(input, &self.expected.scalars);
                    let done = fault.check("program", client.run(run.send_points(sum)));
                    let right = [self.sum_of_squares];
                    assert!(done.is_none_or(|done| done.points(sum).unwrap() == right));
                }
                3 => {
                    let form = client.gf2_echelon(&self.matrix, RunOptions::default());
                    let form = fault.check("echelon form", form);
                    assert!(form.is_none_or(|form| form.matrix == self.echelon));
                }
                _ => {
                    let [a, b] = &self.factors;
                    let product = client.int_mul(a, b, RunOptions::default());
                    let product = fault.check("product", product);
                    assert!(product.is_none_or(|done| done.product == a * b), "a wrong product");
                }
            }
        }
    }

    fn transform(&self, client: &BlockingClient, fault: &SeededFault) {
        let mut values = self.expected.scalars.clone();
        let done = fault.check("NTT", client.ntt(&mut values, NttOptions::default()));
        assert!(done.is_none() || values == self.expected.transformed, "a wrong transform");
    }

    /// In two orders at the same time, so that both workers run jobs.
    fn run_twice(&self, serving: &ServingDaemon, fault: &SeededFault) {
        thread::scope(|scope| {
            for first in [0, 2] {
                let ServingDaemon { daemon, bases } = serving;
                scope.spawn(move || self.run(daemon, bases, first, fault));
            }
        });
    }

    /// A call succeeds on a GPU.
    fn check_on_gpu(&self, daemon: &FaultyDaemon) {
        let mut values = self.expected.scalars.clone();
        let done = daemon.client().ntt(&mut values, NttOptions::default()).unwrap();
        assert!(values == self.expected.transformed && done.execution.engine == "cuda");
    }
}

/// A daemon that holds the bases of the jobs.
struct ServingDaemon {
    daemon: FaultyDaemon,
    bases: BasesHandle<G1Affine>,
}

/// Daemons in whose workers seeds choose faults.
struct SeededRuns {
    jobs: SeededJobs,
    serving: ServingDaemon,
    /// The seeds that `serving` has served.
    served: u64,
    start_calls: u64,
    job_calls: JobCalls,
    /// How many faults were injected into drivers of daemons that have ended.
    faults: usize,
}

impl ServingDaemon {
    fn start(jobs: &SeededJobs, of_starts: &str) -> Option<Self> {
        let daemon = FaultyDaemon::start_with_faults(&[], of_starts)?;
        // The bases are not part of the start.
        daemon.plan("");
        let bases = daemon.client().put_bases(&jobs.expected.points).unwrap();
        Some(Self { daemon, bases })
    }

    /// Returns how many faults were injected.
    fn stop(self) -> usize {
        let faults = self.daemon.logged(INJECTED);
        stop(self.daemon.child);
        faults
    }
}

impl SeededRuns {
    /// Counts the calls of a worker.
    fn start() -> Option<Self> {
        let jobs = SeededJobs::new();
        let serving = ServingDaemon::start(&jobs, COUNTED_START)?;
        let daemon = &serving.daemon;
        daemon.plan(&COUNTED.join(","));
        jobs.run_twice(&serving, &SeededFault::none());
        daemon.plan("");
        // The next calls report how many there were before.
        jobs.check_on_gpu(daemon);
        let counted = || {
            let start_calls = daemon.dropped_after(COUNTED_START)?;
            Some((start_calls, JobCalls::counted(|fault| daemon.dropped_after(fault))?))
        };
        wait_until("a worker reports its calls", || counted().is_some());
        let (start_calls, job_calls) = counted()?;
        println!("{start_calls} calls before a worker serves, then {job_calls:?}");
        Some(Self { jobs, serving, served: 0, start_calls, job_calls, faults: 0 })
    }

    /// The daemon, or a new one after enough seeds.
    fn replace_daemon(&mut self) {
        self.served += 1;
        if self.served > SEEDS_OF_A_DAEMON {
            let new = ServingDaemon::start(&self.jobs, "").unwrap();
            self.faults += std::mem::replace(&mut self.serving, new).stop();
            self.served = 1;
        }
    }

    fn run(&mut self, seed: u64) {
        let rng = &mut StdRng::seed_from_u64(seed);
        match seed % 3 {
            0 => self.fail_during_jobs(seed, rng),
            1 => self.fail_at_the_start_of_a_daemon(seed, rng),
            _ => self.fail_at_the_start_of_a_successor(seed, rng),
        }
    }

    fn fail_during_jobs(&mut self, seed: u64, rng: &mut StdRng) {
        self.replace_daemon();
        let fault = SeededFault::of_jobs(rng, self.job_calls);
        println!("seed {seed}: {}", fault.text);
        let daemon = &self.serving.daemon;
        daemon.plan(&fault.text);
        self.jobs.run_twice(&self.serving, &fault);
        daemon.plan("");
        daemon.wait_for_ended_workers();
        self.jobs.check_on_gpu(daemon);
    }

    /// The device is left out, or the fault costs nothing. No call fails.
    fn fail_at_the_start_of_a_daemon(&mut self, seed: u64, rng: &mut StdRng) {
        let device = rng.random_range(0..2);
        let fault = SeededFault::of_start(rng, &format!("any@{device}"), self.start_calls);
        println!("seed {seed}: {} at a daemon's start", fault.text);
        let serving = ServingDaemon::start(&self.jobs, &fault.text).unwrap();
        let daemon = &serving.daemon;
        self.jobs.run_twice(&serving, &fault);
        self.jobs.check_on_gpu(daemon);
        let left_out = daemon.metric(r#"capstan_devices{state="left_out"}"#);
        if left_out == 0 {
            // A fault of the last calls is found by the next job.
            let is_met = fault.is_fatal && Self::faults_of(daemon) > 0;
            self.run_until(&serving, &fault, || !is_met || daemon.metric(RESTARTS) > 0);
            daemon.wait_for_ended_workers();
        } else {
            assert_eq!((left_out, daemon.metric(USED)), (1, 1), "{}", fault.text);
            daemon.wait_for_logged(&["a GPU is left out", &format!("device={device}")], 1);
        }
        self.faults += serving.stop();
    }

    /// A worker is killed, and its successor fails before it serves.
    fn fail_at_the_start_of_a_successor(&mut self, seed: u64, rng: &mut StdRng) {
        self.replace_daemon();
        let fault = SeededFault::of_start(rng, "any", self.start_calls);
        println!("seed {seed}: {} at a successor's start", fault.text);
        let daemon = &self.serving.daemon;
        let (faults, restarts) = (Self::faults_of(daemon), daemon.metric(RESTARTS));
        let not_started = || NOT_STARTED.map(|line| daemon.logged(&[line]));
        let (injected, failures) = (daemon.logged(INJECTED), not_started());
        daemon.plan_with_starts("", &fault.text);
        let victims = workers(&daemon.child);
        thread::scope(|scope| {
            scope.spawn(|| self.jobs.run_twice(&self.serving, &fault));
            kill_process(victims[rng.random_range(0..victims.len())], Signal::KILL).unwrap();
            wait_until("the fault, or a successor", || {
                daemon.logged(INJECTED) > injected
                    || (daemon.metric(RESTARTS) > restarts && daemon.both_gpus_serve())
            });
            daemon.plan("");
        });
        daemon.wait_for_ended_workers();
        self.jobs.check_on_gpu(daemon);
        let is_met = fault.is_fatal && Self::faults_of(daemon) > faults;
        self.run_until(&self.serving, &fault, || {
            !is_met || not_started() != failures || daemon.metric(RESTARTS) > restarts + 1
        });
        daemon.wait_for_ended_workers();
    }

    /// How many faults were injected into calls of `daemon` that a worker cannot do without.
    fn faults_of(daemon: &FaultyDaemon) -> usize {
        let optional = OPTIONAL.map(|call| daemon.logged(&[INJECTED[0], call]));
        daemon.logged(INJECTED) - optional.into_iter().sum::<usize>()
    }

    /// Runs jobs until a worker that was started in spite of a fatal fault is lost.
    fn run_until(&self, serving: &ServingDaemon, fault: &SeededFault, is_lost: impl Fn() -> bool) {
        wait_until(&format!("{}: a worker is lost", fault.text), || {
            is_lost() || {
                self.jobs.run_twice(serving, fault);
                false
            }
        });
    }
}

#[test]
fn a_fault_at_any_driver_call_of_a_worker_makes_no_result_wrong() {
    let faults = run_with_faults_of(&seeds(SEEDS).collect::<Vec<_>>());
    assert_ne!(faults, Some(0), "no seed has reached its call");
}

#[test]
#[ignore = "sweep"]
fn faults_of_more_seeds_make_no_result_of_a_worker_wrong() {
    run_with_faults_of(&sweep::cases("seeds of workers", SEEDS..SEEDS + 20));
}

/// Returns how many faults were met; `None` if there is no emulated driver.
fn run_with_faults_of(seeds: &[u64]) -> Option<usize> {
    let mut runs = SeededRuns::start()?;
    seeds.iter().for_each(|seed| runs.run(*seed));
    let faults = runs.faults + runs.serving.stop();
    println!("{faults} faults of {} seeds", seeds.len());
    Some(faults)
}

/// Plans a fault that the first GPU meets in a transform, and transforms on both meanwhile.
fn transform_while_the_first_gpu_hangs(daemon: &FaultyDaemon, expected: &Expected) {
    daemon.plan("launch@0:1:hang");
    let transform = || {
        let mut values = expected.scalars.clone();
        let done = daemon.client().ntt(&mut values, NttOptions::default()).unwrap();
        assert!(values == expected.transformed && done.execution.engine == "cuda");
    };
    let (is_over, mut meanwhile) = (AtomicBool::new(false), 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let _over = SetOnDrop(&is_over);
            // The first GPU is chosen if both are idle.
            transform();
        });
        daemon.wait_for_logged(&["fault injected into"], 1);
        while !is_over.load(Ordering::Relaxed) {
            transform();
            meanwhile += u64::from(daemon.metric(RESTARTS) == 0);
        }
    });
    assert!(meanwhile > 0, "the other GPU waited");
}

/// On a loaded machine, other work may exceed the limit, too: more workers are replaced.
#[test]
fn a_kernel_that_never_ends_delays_only_its_call() {
    let Some(daemon) = FaultyDaemon::start(&["--cuda-timeout-ms", HANG_LIMIT_MS]) else { return };
    transform_while_the_first_gpu_hangs(&daemon, &Expected::new());
    daemon.wait_for_ended_workers();
    for name in [RESTARTS, "capstan_worker_timeouts_total", "capstan_repeated_runs_total"] {
        assert!(daemon.metric(name) >= 1, "{name}");
    }
    assert_eq!(daemon.metric("capstan_quarantines_total"), 0);
    let lines: [&[&str]; 3] = [
        &["a worker ended", "device=0", "its GPU did not finish its work in time"],
        &["a run begins again", "device=0", "its worker was lost"],
        &["a worker was replaced", "device=0"],
    ];
    for parts in lines {
        // The log is read by a thread, and the last line is written after the worker serves.
        wait_until(&format!("{parts:?}"), || daemon.logged(parts) > 0);
    }
    stop(daemon.child);
}
