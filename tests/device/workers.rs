//! Worker processes: what the daemon does when they end.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    net::SocketAddr,
    path::Path,
    process::Child,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use ark_ec::{CurveGroup as _, VariableBaseMSM as _};
use ark_ff::{Field as _, UniformRand as _};
use ark_poly::{EvaluationDomain, Radix2EvaluationDomain};
use ark_std::rand::{SeedableRng as _, rngs::StdRng};
use capstan::{
    client::{
        Client, Group, NttOptions, NttTransform, PointEncoding, ProgramBuilder, ProgramRun,
        PutOptions, RunOptions, blocking::BlockingClient,
    },
    curve::{Fr, G1Affine, G1Projective, points},
    server::has_landlock,
    sparse::{SparseBuilder, SparseMatrix},
};
use rustix::process::{Pid, Signal, geteuid, kill_process};

use crate::{
    daemon::{
        LoggedDaemon, METRICS, MeasuredDaemon, http, metric, spawn_on_gpus, start,
        start_with_metrics, stop,
    },
    emulated, sweep,
};

pub const N: usize = 1 << 8;

/// The number of GPUs whose workers serve.
pub const USED: &str = r#"capstan_devices{state="used"}"#;

/// The number of workers whose end the daemon has seen.
pub const RESTARTS: &str = "capstan_worker_restarts_total";

/// Sets a flag when it is dropped, also by a panic, so that no other thread waits for ever.
pub struct SetOnDrop<'a>(pub &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The worker processes of a daemon, in the order of their start.
pub fn workers(daemon: &Child) -> Vec<Pid> {
    children(daemon.id())
}

/// The processes that another one has started, in the order of their start.
pub fn children(of: u32) -> Vec<Pid> {
    let mut found: Vec<(u64, i32)> = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // It may have ended meanwhile.
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        let (state, parent) = (fields[0], fields[1]);
        if parent == of.to_string() && !matches!(state, "Z" | "X") {
            let start_time = fields[19].parse().unwrap();
            found.push((start_time, id));
        }
    }
    found.sort_unstable();
    found.into_iter().filter_map(|(_, id)| Pid::from_raw(id)).collect()
}

pub fn wait_until(what: &str, is_true: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_true() {
        assert!(begun.elapsed() < Duration::from_secs(300), "never: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a worker serves on each device, after all losses of workers that had ended before.
/// Processes are counted first: a successor starts after the gauge has fallen.
pub fn all_serve(daemon: &Child, metrics: SocketAddr, devices: usize) -> bool {
    workers(daemon).len() == devices && metric(metrics, USED) == devices as u64
}

/// Waits until the daemon has lost `restarts` workers since its start and has replaced them all.
pub fn wait_for_successors(daemon: &Child, metrics: SocketAddr, restarts: u64, devices: usize) {
    wait_until("a successor", || {
        metric(metrics, RESTARTS) == restarts && all_serve(daemon, metrics, devices)
    });
}

pub fn status_of(process: Pid, field: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{}/status", process.as_raw_nonzero())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim().to_owned()
}

/// Whether a process has loaded a library. `None` if only root may know.
fn has_loaded(process: u32, library: &str) -> Option<bool> {
    Some(fs::read_to_string(format!("/proc/{process}/maps")).ok()?.contains(library))
}

/// How a process may access the payload memory that it has mapped. Root may know.
fn payload_rights(process: Pid) -> Option<Vec<String>> {
    let maps = fs::read_to_string(format!("/proc/{}/maps", process.as_raw_nonzero()));
    assert!(maps.is_ok() || !geteuid().is_root(), "{maps:?}");
    let maps = maps.ok()?;
    let mappings = maps.lines().filter(|line| line.contains("memfd:capstan-payloads"));
    let rights = mappings.map(|line| line.split(' ').nth(1).unwrap().to_owned());
    Some(rights.collect::<BTreeSet<_>>().into_iter().collect())
}

/// Points, scalars, and what the daemon should make of them.
pub struct Expected {
    pub points: Vec<G1Affine>,
    pub scalars: Vec<Fr>,
    pub sum: G1Projective,
    sum_of_reversed: G1Projective,
    pub transformed: Vec<Fr>,
}

/// The matrix that reverses a vector.
fn reversal() -> SparseMatrix {
    let mut rows = SparseBuilder::new(N, N);
    (0..N).rev().for_each(|column| rows.push_row([(Fr::from(1), column)]).unwrap());
    rows.build().unwrap()
}

impl Expected {
    pub fn new() -> Self {
        let mut rng = StdRng::seed_from_u64(5);
        let points: Vec<_> = (0..N).map(|_| G1Projective::rand(&mut rng)).collect();
        let points = G1Projective::normalize_batch(&points);
        let scalars: Vec<_> = (0..N).map(|_| Fr::rand(&mut rng)).collect();
        let sum = G1Projective::msm(&points, &scalars).unwrap();
        let reversed: Vec<_> = scalars.iter().rev().copied().collect();
        let sum_of_reversed = G1Projective::msm(&points, &reversed).unwrap();
        let transformed = Radix2EvaluationDomain::<Fr>::new(N).unwrap().fft(&scalars);
        Self { points, scalars, sum, sum_of_reversed, transformed }
    }

    /// MSMs, transforms and a program, until `is_over`. Counts the rounds. Repeats no call.
    pub fn call_until(&self, address: &str, calls: &AtomicU32, is_over: &AtomicBool) {
        let client = BlockingClient::from_builder(Client::builder(address).retries(0)).unwrap();
        let bases = client.put_bases(&self.points).unwrap();
        let reversal = client.put_matrix(&reversal()).unwrap();
        let mut program = ProgramBuilder::new();
        let input = program.input(N as u64).unwrap();
        let transformed = program.ntt(input, NttTransform::forward()).unwrap();
        let back = program.ntt(transformed, NttTransform::inverse()).unwrap();
        let reversed = program.multiply_sparse(&reversal, back).unwrap();
        let sums = program.msm(&bases, reversed).unwrap();
        let program = program.build().unwrap();
        while !is_over.load(Ordering::Relaxed) {
            assert_eq!(client.msm(&bases, &self.scalars).unwrap(), self.sum);
            let mut values = self.scalars.clone();
            let done = client.ntt(&mut values, NttOptions::default()).unwrap();
            assert!(values == self.transformed, "a wrong transform");
            assert_eq!(done.execution.engine, "cuda");
            let run = ProgramRun::new(&program).input(input, &self.scalars).send_points(sums);
            let result = client.run_with(run, RunOptions::default()).unwrap();
            assert_eq!(result.points(sums).unwrap(), [self.sum_of_reversed]);
            calls.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A worker is killed, and then its successor.
#[test]
fn killed_workers_cost_no_call() {
    kill_workers_during_calls(2);
}

#[test]
#[ignore = "sweep"]
fn more_killed_workers_cost_no_call() {
    if sweep::is_chosen("killed workers") {
        kill_workers_during_calls(4);
    }
}

fn kill_workers_during_calls(kills: u32) {
    let MeasuredDaemon { child, target, metrics } =
        start_with_metrics(&["--engine", "cuda"], &[("EMU_DEVICES", "2")]);
    let devices = workers(&child).len();
    assert!(devices > 0);
    let (expected, calls, is_over) = (Expected::new(), AtomicU32::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let _over = SetOnDrop(&is_over);
        for _ in 0..3 {
            scope.spawn(|| expected.call_until(&target, &calls, &is_over));
        }
        let some_calls = || {
            let before = calls.load(Ordering::Relaxed);
            wait_until("calls", || calls.load(Ordering::Relaxed) > before + 3);
        };
        for kill in 0..kills {
            some_calls();
            let all = workers(&child);
            let victim = all[kill as usize % all.len()];
            kill_process(victim, Signal::KILL).unwrap();
            wait_for_successors(&child, metrics, u64::from(kill) + 1, devices);
        }
        some_calls();
    });
    stop(child);
}

/// Needs two GPUs, so it runs on the emulated driver only.
#[test]
fn a_daemon_with_too_few_gpus_is_not_ready_until_the_lost_one_is_back() {
    if emulated::driver().is_none() {
        return println!("skipped: the host may have one GPU only");
    }
    let flags = [&["--engine", "cuda", "--cuda-devices-min", "2"][..], &METRICS].concat();
    let daemon = spawn_on_gpus(&flags, &[("EMU_DEVICES", "2")]);
    let metrics = daemon.metrics();
    let answer = http(metrics, "/readyz");
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.ends_with("starting"), "{answer}");
    daemon.wait_until_gpus_serve();
    let child = daemon.child;
    let readiness = || http(metrics, "/readyz");
    assert!(readiness().starts_with("HTTP/1.1 200 "), "{}", readiness());
    let [victim, _] = *workers(&child) else { panic!("two workers") };
    kill_process(victim, Signal::KILL).unwrap();
    // The self-test of its successor takes seconds.
    let is_refused = |answer: &str| answer.starts_with("HTTP/1.1 503 ") && answer.contains("GPU");
    wait_until("not ready", || is_refused(&readiness()));
    assert!(http(metrics, "/healthz").starts_with("HTTP/1.1 200 "), "it is alive");
    wait_until("ready again", || readiness().starts_with("HTTP/1.1 200 "));
    assert_eq!(metric(metrics, USED), 2);
    stop(child);
}

#[test]
fn calls_wait_while_the_daemon_opens_its_gpus() {
    let daemon = spawn_on_gpus(&["--engine", "cuda"], &[]);
    let target = daemon.target();
    assert!(!daemon.is_ready(), "the self-test takes longer");
    let connect = || BlockingClient::connect(&target);
    // A connection waits for five seconds at most.
    wait_until("an answer", || match connect() {
        Ok(client) => client.info().unwrap().devices.iter().any(|device| device.gpu.is_some()),
        Err(_) => false,
    });
    daemon.wait_until_gpus_serve();
    stop(daemon.child);
}

#[test]
fn a_daemon_that_ends_has_freed_its_gpus() {
    let (child, _) = start(&["--engine", "cuda", "--cuda-devices", "0"], &[]);
    let [worker] = *workers(&child) else { panic!("one worker") };
    // It cannot end by itself.
    kill_process(worker, Signal::STOP).unwrap();
    stop(child);
    let stat = fs::read_to_string(format!("/proc/{}/stat", worker.as_raw_nonzero()));
    let state = stat.map(|stat| stat.rsplit(')').next().unwrap().trim_start().to_owned());
    assert!(state.as_ref().map_or(true, |state| state.starts_with('Z')), "{state:?}");
}

/// A stopped process stands for a kernel that never ends.
#[test]
fn a_worker_that_does_not_answer_is_replaced() {
    let flags = ["--engine", "cuda", "--cuda-timeout-ms", "6000", "--cuda-devices", "0"];
    let (child, address) = start(&flags, &[]);
    let expected = Expected::new();
    let client = BlockingClient::connect(&address).unwrap();
    let stopped = workers(&child)[0];
    kill_process(stopped, Signal::STOP).unwrap();
    let mut values = expected.scalars.clone();
    client.ntt(&mut values, NttOptions::default()).unwrap();
    assert!(values == expected.transformed, "a wrong transform");
    assert!(!workers(&child).contains(&stopped), "the worker was kept");
    stop(child);
}

#[test]
fn only_workers_load_the_driver_and_they_give_up_rights() {
    let library = emulated::driver().map_or("libcuda.so".into(), |path| path.display().to_string());
    for isolation in ["process", "unrestricted"] {
        let folder = tempfile::tempdir().unwrap();
        let early = folder.path().join("early");
        // A restricted driver may write only to its cache.
        let cache = folder.path().to_str().unwrap();
        let env = [("EMU_TRACE_EARLY", early.to_str().unwrap()), ("CUDA_CACHE_PATH", cache)];
        let flags = ["--engine", "cuda", "--gpu-isolation", isolation];
        let daemon = spawn_on_gpus(&flags, &env);
        daemon.wait_until_gpus_serve();
        let LoggedDaemon { child, log, .. } = daemon;
        let log = log.lock().unwrap().clone();
        assert!(!log.contains("system calls of this worker are not restricted"), "{log}");
        let is_restricted = isolation == "process";
        let has_all_files = log.contains("the files of this worker are not restricted");
        assert_eq!(has_all_files, is_restricted && !has_landlock(), "{log}");
        assert_ne!(has_loaded(child.id(), &library), Some(true), "the daemon has loaded it");
        for worker in workers(&child) {
            assert_ne!(has_loaded(worker.as_raw_nonzero().get() as u32, &library), Some(false));
            let rights = payload_rights(worker).unwrap_or_else(|| {
                println!("skipped: only root may know what workers map");
                vec!["r--s".into(), "rw-s".into()]
            });
            let pins_read_only = emulated::driver().is_some() || rights != ["rw-s"];
            assert!(
                !pins_read_only || rights == ["r--s", "rw-s"],
                "inputs and results: {rights:?}"
            );
            for (field, restricted) in [("NoNewPrivs:", "1"), ("Seccomp:", "2")] {
                let of_daemon = status_of(Pid::from_child(&child), field);
                let expected = if is_restricted { restricted } else { &of_daemon };
                assert_eq!(status_of(worker, field), expected, "{field}");
            }
        }
        let all = workers(&child);
        stop(child);
        let ended =
            |worker: &Pid| !fs::exists(format!("/proc/{}", worker.as_raw_nonzero())).unwrap();
        wait_until("the workers end", || all.iter().all(ended));
        if emulated::driver().is_none() {
            continue;
        }
        // The file lies in the driver's cache.
        assert!(!fs::read(&early).unwrap().is_empty(), "no kernel of the self-test is early");
        if is_restricted && has_landlock() {
            let mut daemon = spawn_on_gpus(&flags, &env[..1]);
            wait_until("a worker that cannot open the file", || {
                assert!(!daemon.is_ready(), "{}", daemon.text());
                daemon.text().contains("EMU_TRACE_EARLY")
            });
            assert!(!daemon.child.wait().unwrap().success());
        }
    }
}

#[test]
fn a_gpu_that_pins_no_memory_for_reading_maps_inputs_like_results() {
    if emulated::driver().is_none() {
        return println!("skipped: what a GPU can pin is fixed");
    }
    let flags = ["--engine", "cuda", "--cuda-devices", "0"];
    let (child, address) = start(&flags, &[("EMU_READ_ONLY_PINS", "0")]);
    let expected = Expected::new();
    let client = BlockingClient::connect(&address).unwrap();
    let mut values = expected.scalars.clone();
    client.ntt(&mut values, NttOptions::default()).unwrap();
    assert!(values == expected.transformed, "a wrong transform");
    let rights = payload_rights(workers(&child)[0]);
    assert!(rights.is_none_or(|rights| rights == ["rw-s"]));
    stop(child);
}

/// The host checks the points after two workers were lost with them.
#[test]
fn points_are_checked_although_each_worker_fails() {
    if emulated::driver().is_none() {
        return println!("skipped: faults are not injected into a GPU");
    }
    // The self-test launches it three times.
    let env = [("EMU_FAULT", "g1_check_points:4:700")];
    let MeasuredDaemon { child, target, metrics } = start_with_metrics(&["--engine", "cuda"], &env);
    let client = BlockingClient::connect(&target).unwrap();
    let mut rng = StdRng::seed_from_u64(8);
    let one = G1Projective::rand(&mut rng);
    let sums = std::iter::successors(Some(one), |sum| Some(sum + one)).take(5000);
    let all = G1Projective::normalize_batch(&sums.collect::<Vec<_>>());
    let bytes = points::encode(PointEncoding::Montgomery, &all);
    let (group, encoding) = (Group::G1, PointEncoding::Montgomery);
    let put = client.put_encoded(group, encoding, &bytes, PutOptions::default()).unwrap();
    assert_eq!(put.count, 5000);
    wait_until("two restarts", || metric(metrics, RESTARTS) == 2);
    assert_eq!(metric(metrics, r#"capstan_device_faults_total{class="fatal"}"#), 2);
    stop(child);
}

#[test]
fn a_run_that_fails_each_worker_is_refused_and_other_runs_go_on() {
    if emulated::driver().is_none() {
        return println!("skipped: faults are not injected into a GPU");
    }
    // No self-test and no other call of this test launches it.
    let (child, address) = start(&["--engine", "cuda"], &[("EMU_FAULT", "fr_batch_inverse:1:700")]);
    let client = BlockingClient::connect(&address).unwrap();
    let mut program = ProgramBuilder::new();
    let three = Fr::from(3);
    let powers = program.powers(Fr::ONE, three, 1 << 10).unwrap();
    let inverses = program.invert(powers).unwrap();
    let program = program.build().unwrap();
    let run = ProgramRun::new(&program).send(inverses);
    let refused = client.run_with(run, RunOptions::default()).map(|_| "the run succeeded");
    let refused = refused.unwrap_err();
    assert_eq!(refused.reason_text(), "LOST_TWICE", "{refused}");
    let expected = Expected::new();
    let mut values = expected.scalars.clone();
    let done = client.ntt(&mut values, NttOptions::default()).unwrap();
    assert!(values == expected.transformed && done.execution.engine == "cuda");
    stop(child);
}

/// Whether a process has mapped this file.
fn has_mapped(process: Pid, file: &Path) -> bool {
    has_loaded(process.as_raw_nonzero().get() as u32, file.to_str().unwrap()) != Some(false)
}

#[test]
fn bases_that_a_worker_cannot_read_fail_their_call_and_can_be_put_again() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().to_str().unwrap();
    let flags = ["--engine", "cuda", "--cuda-devices", "0", "--data-dir", data_dir];
    let (child, address) = start(&flags, &[]);
    let before = workers(&child);
    // A repeated call would find the object unknown.
    let client = BlockingClient::from_builder(Client::builder(&address).retries(0)).unwrap();
    let one = G1Projective::rand(&mut StdRng::seed_from_u64(9));
    let sums = std::iter::successors(Some(one), |sum| Some(sum + one)).take(2000);
    let points = G1Projective::normalize_batch(&sums.collect::<Vec<_>>());
    let persistent = PutOptions { persist: true, ..PutOptions::default() };
    let bases = client.put_bases_with(persistent.clone(), &points).unwrap();
    // So few points are not sent to the GPU: the worker reads them when it sums them.
    let sum_of = |start| client.msm(&bases.slice(start, 4).unwrap(), &[Fr::from(1); 4]);
    assert_eq!(sum_of(0).unwrap(), one * Fr::from(1 + 2 + 3 + 4));
    let file = folder.path().join(format!("bases/{}.bases", bases.id()));
    assert!(has_mapped(before[0], &file), "the worker does not sum them");
    File::options().write(true).open(&file).unwrap().set_len(20_000).unwrap();
    let refused = sum_of(1900).unwrap_err();
    assert_eq!(refused.reason_text(), "DISK_FAILED", "{refused}");
    assert!(sum_of(0).unwrap_err().is_not_found(), "the object is kept");
    assert_eq!(workers(&child), before, "the worker was lost");
    let again = client.put_bases_with(persistent, &points).unwrap();
    let last = client.msm(&again.slice(1996, 4).unwrap(), &[Fr::from(1); 4]).unwrap();
    assert_eq!(last, one * Fr::from(1997 + 1998 + 1999 + 2000));
    stop(child);
}
