//! MSMs and programs on several GPUs at once, with a policy that divides every call.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    thread,
    time::Duration,
};

use ark_poly::{EvaluationDomain, Radix2EvaluationDomain};
use capstan::{
    client::{
        Client, ClientError, Fr, MsmOptions, NttTransform, ProgramBuilder, ProgramRun,
        ResidencyAction, RunOptions, ScalarInput, Verification, blocking::BlockingClient,
    },
    curve::{G1Affine, G2Affine, points::CurvePoint, scalars::ScalarEncoding},
    engine::cpu::{ArkworksEngine, CpuEngine},
    server::{Engines, ServerSettings},
    sparse::{SparseBuilder, SparseMatrix},
    worker::{SpreadPolicy, WorkerCommand, WorkerPoolSettings, WorkerSettings},
};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::{
    common::{TestServer, serve_with},
    daemon::binary,
    daemon_jobs::{BATCH, MsmData, N},
    emulated,
    fault_file::FaultFile,
    shared::spread_server,
    spread_refusals::refuses_the_element_of_the_earliest_step,
    sweep,
    workers::{children, wait_until},
};

pub const CHECKS: [Verification; 3] =
    [Verification::None, Verification::Probabilistic, Verification::Full];

/// A server in this process, and its workers. `name` is among the workers' arguments.
pub struct SpreadServer {
    name: &'static str,
    pub server: TestServer,
    pub client: BlockingClient,
    pub faults: FaultFile,
    /// Has the server's Unix socket.
    folder: TempDir,
}

/// The settings of a pool that divides every MSM; `None` without the emulated driver, which has as
/// many devices as the test wants. `program` is the daemon that workers run.
pub fn settings(
    name: &str,
    devices: u32,
    program: PathBuf,
    faults: &FaultFile,
) -> Option<WorkerPoolSettings> {
    let Some(driver) = emulated::driver() else {
        println!("skipped: the number of GPUs is fixed");
        return None;
    };
    let (driver, (variable, file)) = (Some(driver), faults.setting());
    let variables = [format!("EMU_DEVICES={devices}"), format!("{variable}={file}")];
    // `env` becomes the worker, which logs as text because it does not know the format `name`.
    let mut arguments: Vec<OsString> = variables.map(Into::into).into();
    arguments.extend([program.into(), "worker".into(), name.into(), "warn".into()]);
    let command = WorkerCommand { program: "/usr/bin/env".into(), arguments };
    let settings = WorkerPoolSettings {
        command,
        devices: Vec::new(),
        worker: WorkerSettings {
            is_restricted: true,
            driver,
            memory_percent: 10,
            timeout: Duration::from_secs(60),
            msm_scalars_min: 1,
            ntt_elements_min: 1,
            threads: 1,
            busy_poll: Duration::ZERO,
        },
        spread: SpreadPolicy {
            scalars_min: 1,
            program_time_min: Duration::ZERO,
            gpu_time_max: f64::INFINITY,
        },
    };
    Some(settings)
}

impl SpreadServer {
    pub fn start(name: &'static str, devices: u32) -> Option<Self> {
        let faults = FaultFile::new("");
        let settings = settings(name, devices, binary(), &faults)?;
        Some(Self::with_settings(name, settings, faults))
    }

    /// Two workers run `program`.
    pub fn start_with_workers_of(name: &'static str, program: PathBuf) -> Option<Self> {
        let faults = FaultFile::new("");
        let settings = settings(name, 2, program, &faults)?;
        Some(Self::with_settings(name, settings, faults))
    }

    pub fn with_settings(
        name: &'static str,
        settings: WorkerPoolSettings,
        faults: FaultFile,
    ) -> Self {
        let (cpu, oracle) = (CpuEngine::new(1).unwrap(), ArkworksEngine::new(1).unwrap());
        let engines = Engines::on_workers(settings, cpu, oracle, 1 << 20).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("capstan.sock");
        let target = format!("unix:{}", socket.display());
        let settings = ServerSettings { unix_socket: Some(socket), ..ServerSettings::default() };
        let server = serve_with(settings, engines);
        let client = BlockingClient::connect(target).unwrap();
        Self { name, server, client, faults, folder }
    }

    /// Its temporary folders.
    pub fn folders(&self) -> [&Path; 2] {
        [self.folder.path(), self.faults.folder()]
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("capstan.sock")
    }

    /// A client that repeats no call.
    pub fn client_without_retries(&self) -> BlockingClient {
        let target = format!("unix:{}", self.socket().display());
        BlockingClient::from_builder(Client::builder(target).retries(0)).unwrap()
    }

    /// Waits until as many workers serve as `before`, which have not all survived.
    pub fn wait_for_successors(&self, before: &[Pid]) {
        wait_until("a successor", || {
            let (now, info) = (self.workers(), self.client.info().unwrap());
            let serving = info.devices.iter().filter(|device| device.gpu.is_some()).count();
            now != before && [now.len(), serving] == [before.len(); 2]
        });
    }

    pub fn workers(&self) -> Vec<Pid> {
        let is_ours = |worker: &Pid| {
            let line = fs::read(format!("/proc/{}/cmdline", worker.as_raw_nonzero()));
            let line = line.unwrap_or_default();
            line.split(|byte| *byte == 0).any(|argument| argument == self.name.as_bytes())
        };
        children(std::process::id()).into_iter().filter(is_ours).collect()
    }
}

/// The sums of all kinds of MSMs on this many GPUs.
fn check_sums<A: CurvePoint>(devices: usize, checks: &[Verification]) {
    let Some(spread) = spread_server(devices) else { return };
    let (client, msms) = (&spread.client, MsmData::<A>::new());
    let resident = client.put_bases(&msms.points).unwrap();
    let is_spread = |device: &str| device.starts_with(&format!("{devices} GPUs: "));
    for &verify in checks {
        // One of the lengths is no multiple of the number of devices.
        for n in [N, N - 1] {
            let (scalars, options) =
                (&msms.scalars[..n], MsmOptions { verify, ..MsmOptions::default() });
            let bases = resident.slice(0, n as u64).unwrap();
            let stored = client.msm_with(&bases, scalars, options.clone()).unwrap();
            let inline = client.msm_inline_with(&msms.points[..n], scalars, options).unwrap();
            for done in [stored, inline] {
                assert_eq!((done.points, done.execution.verified), (msms.sums(scalars, n), verify));
                assert!(is_spread(&done.execution.device), "{}", done.execution.device);
                assert_eq!(done.execution.engine, "cuda");
            }
        }
    }
    let options = MsmOptions { batch: BATCH as u32, ..MsmOptions::default() };
    let done = client.msm_with(&resident, &msms.scalars, options).unwrap();
    assert_eq!(done.points, msms.sums(&msms.scalars, N));
    assert!(is_spread(&done.execution.device), "{}", done.execution.device);
    msms.check_batches(client, &resident, checks);
    msms.check_narrow(client, &resident);
    msms.check_streamed(client, &spread.server.target);
}

#[test]
fn parts_of_an_msm_use_pinned_bases() {
    let Some(spread) = spread_server(2) else { return };
    let (client, mut msms) = (&spread.client, MsmData::<G1Affine>::new());
    // No other test puts these points.
    msms.points[1..].reverse();
    let bases = client.put_bases(&msms.points).unwrap();
    let pinned = client.set_residency(bases.id(), ResidencyAction::Pin, &[]).unwrap();
    assert!(pinned.len() == 2 && pinned.iter().all(|held| held.pinned));
    let scalars = &msms.scalars[..N];
    let done = client.msm_with(&bases, scalars, MsmOptions::default()).unwrap();
    assert_eq!(done.points, msms.sums(scalars, N));
    assert!(done.execution.device.starts_with("2 GPUs: "), "{}", done.execution.device);
    // No GPU has got its half as a separate object.
    let listed = client.list(None).unwrap();
    let own = listed.into_iter().find(|object| object.id == bases.id()).unwrap();
    assert_eq!(own.residency, pinned);
}

#[test]
fn two_gpus_sum_over_half_of_the_points_each() {
    check_sums::<G1Affine>(2, &CHECKS);
}

#[test]
fn three_gpus_sum_over_a_third_of_the_points_each() {
    check_sums::<G1Affine>(3, &[Verification::None, Verification::Probabilistic]);
}

#[test]
fn gpus_divide_msms_in_g2() {
    check_sums::<G2Affine>(2, &CHECKS);
}

#[test]
fn small_msms_stay_on_one_gpu_by_default() {
    let (name, faults) = ("spread-default", FaultFile::new(""));
    let Some(mut settings) = settings(name, 2, binary(), &faults) else { return };
    settings.spread = SpreadPolicy::default();
    let spread = SpreadServer::with_settings(name, settings, faults);
    let msms = MsmData::<G1Affine>::new();
    let resident = spread.client.put_bases(&msms.points).unwrap();
    let scalars = &msms.scalars[..N];
    let done = spread.client.msm_with(&resident, scalars, MsmOptions::default()).unwrap();
    assert_eq!(done.points, msms.sums(scalars, N));
    assert!(!done.execution.device.contains("GPUs"), "{}", done.execution.device);
    spread.server.stop();
}

/// The refusal names the first of all scalars, whichever GPUs read them.
#[test]
fn a_scalar_that_is_not_canonical_is_refused_with_its_index_in_the_whole_input() {
    let Some(spread) = spread_server(2) else { return };
    let msms = MsmData::<G1Affine>::new();
    let resident = spread.client.put_bases(&msms.points).unwrap();
    // The first GPU has elements up to N / 2 of each row.
    for bad in [vec![3], vec![N - 1], vec![N + 2], vec![N - 5, N + 2], vec![2 * N - 1, 2 * N + 1]] {
        let mut bytes = vec![0; 32 * N * BATCH];
        for &index in &bad {
            bytes[32 * index..][..32].fill(0xff);
        }
        let scalars = ScalarInput::Bytes { encoding: ScalarEncoding::Canonical, bytes: &bytes };
        let options = MsmOptions { batch: BATCH as u32, ..MsmOptions::default() };
        let Err(ClientError::Refused(refusal)) =
            spread.client.msm_with(&resident, scalars, options)
        else {
            panic!("accepted scalars {bad:?}")
        };
        assert_eq!(refusal.reason_text, "NOT_CANONICAL");
        assert_eq!(refusal.index, Some(bad[0] as u64));
    }
}

/// The matrix that doubles each element.
fn doubling(length: usize) -> SparseMatrix {
    let mut rows = SparseBuilder::new(length, length);
    (0..length).for_each(|at| rows.push_row([(Fr::from(2), at)]).unwrap());
    rows.build().unwrap()
}

/// Independent outputs of a program are made by different GPUs.
#[test]
fn gpus_divide_programs_by_outputs() {
    for devices in [2, 3] {
        let Some(spread) = spread_server(devices) else { return };
        let msms = MsmData::<G1Affine>::new();
        let resident = spread.client.put_bases(&msms.points).unwrap();
        let (a, b) = (&msms.scalars[..64], &msms.scalars[N..N + 64]);
        let doubling = spread.client.put_matrix(&doubling(64)).unwrap();
        let mut program = ProgramBuilder::new();
        let (x, y) = (program.input(64).unwrap(), program.input(64).unwrap());
        let sums = [x, y].map(|input| program.msm(&resident.slice(0, 64).unwrap(), input).unwrap());
        let transformed = program.ntt(x, NttTransform::forward()).unwrap();
        let [value, of_transformed] =
            [x, transformed].map(|input| program.evaluate(input, Fr::from(1)).unwrap());
        let doubled = program.multiply_sparse(&doubling, x).unwrap();
        let program = program.build().unwrap();
        let domain = Radix2EvaluationDomain::<Fr>::new(64).unwrap();
        let expected = domain.fft(a);
        let total = |values: &[Fr]| values.iter().sum::<Fr>();
        for verify in CHECKS {
            let run = ProgramRun::new(&program).input(x, a).input(y, b).send(of_transformed);
            let run = run.send_points(sums[1]).send(transformed).send(x);
            let run = run.send_points(sums[0]).send(value).send(value).send(doubled);
            let options = RunOptions { verify, ..RunOptions::default() };
            let done = spread.client.run_with(run, options).unwrap();
            for (sum, scalars) in sums.into_iter().zip([a, b]) {
                assert_eq!(done.points(sum).unwrap(), msms.sums(scalars, 64));
            }
            assert_eq!(done.vector(transformed).unwrap(), expected);
            assert_eq!(done.vector(x).unwrap(), a);
            let twice: Vec<_> = a.iter().map(|element| *element + element).collect();
            assert_eq!(done.vector(doubled).unwrap(), twice);
            assert_eq!(done.vector(value).unwrap(), [total(a)]);
            assert_eq!(done.vector(of_transformed).unwrap(), [total(&expected)]);
            let execution = done.execution;
            let gpus = format!("{devices} GPUs: ");
            assert!(execution.device.starts_with(&gpus), "{}", execution.device);
            assert_eq!(execution.verified, verify);
            let checked = done.steps.iter().filter(|step| step.verified == verify).count();
            assert!(checked >= 3, "{:?}", done.steps);
        }
        refuses_the_element_of_the_earliest_step(&spread);
    }
}

/// One GPU overwrites the vector that another one reads.
#[test]
fn parts_of_a_program_do_not_spoil_the_input_of_others() {
    let Some(spread) = spread_server(2) else { return };
    let msms = MsmData::<G1Affine>::new();
    let resident = spread.client.put_bases(&msms.points).unwrap();
    let values = &msms.scalars[..64];
    let mut program = ProgramBuilder::new();
    let x = program.input(64).unwrap();
    let sum = program.msm(&resident.slice(0, 64).unwrap(), x).unwrap();
    let transformed = program.ntt(x, NttTransform::forward()).unwrap();
    let program = program.build().unwrap();
    let expected = Radix2EvaluationDomain::<Fr>::new(64).unwrap().fft(values);
    for _ in 0..4 {
        let mut vector = spread.client.alloc_vector(64).unwrap();
        assert!(vector.is_shared());
        vector.copy_from_slice(values);
        let run = ProgramRun::new(&program).in_place(x, transformed, vector).send_points(sum);
        let mut done = spread.client.run(run).unwrap();
        assert!(done.execution.device.starts_with("2 GPUs: "), "{}", done.execution.device);
        assert_eq!(done.points(sum).unwrap(), msms.sums(values, 64));
        assert!(*done.take_vector(transformed).unwrap().to_vec() == expected);
    }
}

/// A worker is killed, and then its successor.
#[test]
fn a_killed_worker_costs_no_spread_msm() {
    kill_workers_during_spread_msms("spread-kill", 2);
}

#[test]
#[ignore = "sweep"]
fn more_killed_workers_cost_no_spread_msm() {
    if sweep::is_chosen("killed workers of spread MSMs") {
        kill_workers_during_spread_msms("spread-kills", 4);
    }
}

fn kill_workers_during_spread_msms(name: &'static str, kills: usize) {
    let Some(spread) = SpreadServer::start(name, 2) else { return };
    let msms = MsmData::<G1Affine>::new();
    let expected = msms.sums(&msms.scalars, N);
    let (calls, is_over) = (AtomicU32::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let resident = spread.client.put_bases(&msms.points).unwrap();
            let options = MsmOptions { batch: BATCH as u32, ..MsmOptions::default() };
            while !is_over.load(Ordering::Relaxed) {
                let done = spread.client.msm_with(&resident, &msms.scalars, options.clone());
                assert_eq!(done.unwrap().points, expected);
                calls.fetch_add(1, Ordering::Relaxed);
            }
        });
        let some_calls = || {
            let before = calls.load(Ordering::Relaxed);
            wait_until("some calls", || calls.load(Ordering::Relaxed) > before + 2);
        };
        for kill in 0..kills {
            some_calls();
            let all = spread.workers();
            let victim = all[kill % all.len()];
            kill_process(victim, Signal::KILL).unwrap();
            wait_until("a successor", || {
                let now = spread.workers();
                now.len() == 2 && !now.contains(&victim)
            });
        }
        some_calls();
        is_over.store(true, Ordering::Relaxed);
    });
    spread.server.stop();
}
