//! Workers whose driver fails at any call, and a worker whose kernel never ends: each call of a
//! client gets the right result or a documented refusal, and the daemon goes on with its GPUs.
//!
//! Seeds choose the call that fails, and its error. `CAPSTAN_WORKER_FAULT_SEEDS` sets the number of
//! seeds, `CAPSTAN_WORKER_FAULT_FIRST` the first one.

use std::{
    env,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use ark_ec::VariableBaseMSM as _;
use capstan::{
    client::{
        BasesHandle, BigUint, ClientError, ClientProgram, NttOptions, NttTransform, PointsValue,
        ProgramBuilder, ProgramRun, RunOptions, VectorValue, blocking::BlockingClient,
    },
    curve::{G1Affine, G1Projective},
    gf2::{BitMatrix, echelon},
};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

use crate::{
    daemon::stop,
    eliminations::matrix,
    faulty_daemon::FaultyDaemon,
    workers::{Expected, N, RESTARTS, SetOnDrop, wait_until},
};

/// The default number of seeds. Each lost worker is replaced, which takes a self-test.
const SEEDS: u64 = 2;

/// A daemon serves for this many seeds: a GPU that loses more workers is put into quarantine.
const SEEDS_OF_A_DAEMON: u64 = 4;

/// The largest number of the call that fails: each worker makes at least this many during the jobs
/// of most seeds.
const CALLS: u32 = 250;

/// Errors that end the worker: NVLink, illegal address, launch timeout, ECC, misaligned address,
/// failed launch, unknown error.
const FATAL: [u32; 7] = [220, 700, 702, 214, 716, 719, 999];

/// Errors that fail one job: lack of memory, of launch resources; invalid value, symbol not found.
const OF_ONE_JOB: [u32; 4] = [2, 701, 1, 500];

/// The limit on a kernel that hangs: long enough for other work on a loaded machine.
const HANG_LIMIT_MS: &str = "15000";

/// A fault that a seed has chosen.
struct SeededFault {
    /// For the emulated driver.
    text: String,
    /// The reasons for which calls may be refused.
    refusals: &'static [&'static str],
}

impl SeededFault {
    fn new(rng: &mut StdRng) -> Self {
        // Of all calls, or of those that wait for the device.
        let call = if rng.random_ratio(1, 8) { "cuEventQuery" } else { "any" };
        let device = ["@0", "@1", ""][rng.random_range(0..3)];
        let nth = rng.random_range(1..=CALLS);
        let is_fatal = rng.random_ratio(2, 3);
        let codes = if is_fatal { &FATAL[..] } else { &OF_ONE_JOB };
        let code = codes[rng.random_range(0..codes.len())];
        let refusals: &[_] = match (code, device) {
            (2 | 701, _) => &["DEVICE_MEMORY"],
            (1 | 500, _) => &["INTERNAL"],
            // Only one worker is lost.
            (_, "@0" | "@1") => &[],
            _ => &["LOST_TWICE"],
        };
        Self { text: format!("{call}{device}:{nth}:{code}"), refusals }
    }

    /// The result, or `None` if the call was refused for a reason that the fault explains.
    fn check<T>(&self, name: &str, result: Result<T, ClientError>) -> Option<T> {
        match result {
            Ok(result) => Some(result),
            Err(ClientError::Refused(refusal))
                if self.refusals.contains(&refusal.reason_text.as_str()) =>
            {
                println!("{name}: {}", refusal.reason_text);
                None
            }
            Err(error) => panic!("{}: {name}: {error}", self.text),
        }
    }
}

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

    /// Calls succeed on the GPU.
    fn check_that_gpus_serve(&self, daemon: &FaultyDaemon) {
        daemon.wait_for_ended_workers();
        let mut values = self.expected.scalars.clone();
        let done = daemon.client().ntt(&mut values, NttOptions::default()).unwrap();
        assert!(values == self.expected.transformed && done.execution.engine == "cuda");
    }
}

fn number(name: &str, default: u64) -> u64 {
    let text = env::var(name).ok();
    text.map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}: a number")))
}

#[test]
fn a_fault_at_any_driver_call_of_a_worker_makes_no_result_wrong() {
    let first = number("CAPSTAN_WORKER_FAULT_FIRST", 0);
    let seeds: Vec<_> = (first..first + number("CAPSTAN_WORKER_FAULT_SEEDS", SEEDS)).collect();
    let (jobs, mut faults) = (SeededJobs::new(), 0);
    for seeds in seeds.chunks(SEEDS_OF_A_DAEMON as usize) {
        let Some(daemon) = FaultyDaemon::start(&[]) else { return };
        let client = daemon.client();
        let bases = client.put_bases(&jobs.expected.points).unwrap();
        for seed in seeds {
            let fault = SeededFault::new(&mut StdRng::seed_from_u64(*seed));
            println!("seed {seed}: {}", fault.text);
            daemon.plan(&fault.text);
            // In two orders, so that both workers run jobs.
            thread::scope(|scope| {
                for first in [0, 2] {
                    let (daemon, jobs, bases, fault) = (&daemon, &jobs, &bases, &fault);
                    scope.spawn(move || jobs.run(daemon, bases, first, fault));
                }
            });
            daemon.plan("");
            jobs.check_that_gpus_serve(&daemon);
        }
        faults += daemon.logged(&["fault injected into"]);
        stop(daemon.child);
    }
    println!("{faults} faults");
    assert!(faults > 0 || seeds.len() < SEEDS as usize, "no seed has reached its call");
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
