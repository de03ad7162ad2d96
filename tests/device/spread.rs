//! Large MSMs on several GPUs at once, with a policy that divides small ones.

use std::{
    ffi::OsString,
    fs,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    thread,
    time::Duration,
};

use capstan::{
    client::{ClientError, MsmOptions, ScalarInput, Verification, blocking::BlockingClient},
    curve::{G1Affine, G2Affine, points::CurvePoint, scalars::ScalarEncoding},
    engine::cpu::{ArkworksEngine, CpuEngine},
    exec::worker::{SpreadPolicy, WorkerCommand, WorkerPoolSettings, WorkerSettings},
    server::{Engines, ServerSettings},
};
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    common::{TestServer, serve_with},
    daemon::binary,
    daemon_jobs::{BATCH, MsmData, N},
    emulated,
    workers::{children, wait_until},
};

const CHECKS: [Verification; 3] =
    [Verification::None, Verification::Probabilistic, Verification::Full];

/// A server in this process, and its workers. `name` is among the workers' arguments.
struct SpreadServer {
    name: &'static str,
    server: TestServer,
    client: BlockingClient,
}

/// The settings of a pool that divides every MSM; `None` without the emulated driver, which has as
/// many devices as the test wants.
fn settings(name: &str, devices: u32) -> Option<WorkerPoolSettings> {
    let driver = Some(emulated::driver()?);
    let devices = format!("EMU_DEVICES={devices}");
    // `env` becomes the worker. A format that is not known is that for people.
    let arguments = [devices.into(), binary().into_os_string(), "worker".into(), name.into()];
    let mut arguments: Vec<OsString> = arguments.into();
    arguments.push("warn".into());
    let command = WorkerCommand { program: "/usr/bin/env".into(), arguments };
    let mut settings = WorkerPoolSettings {
        command,
        devices: Vec::new(),
        worker: WorkerSettings {
            driver,
            memory_percent: 10,
            timeout: Duration::from_secs(60),
            msm_scalars_min: 1,
            ntt_elements_min: 1,
            threads: 1,
        },
        spread: SpreadPolicy::default(),
    };
    settings.spread.scalars_min = 1;
    settings.spread.gpu_time_max = f64::INFINITY;
    Some(settings)
}

impl SpreadServer {
    fn start(name: &'static str, devices: u32) -> Option<Self> {
        let Some(settings) = settings(name, devices) else {
            println!("skipped: the number of GPUs is fixed");
            return None;
        };
        Some(Self::with_settings(name, settings))
    }

    fn with_settings(name: &'static str, settings: WorkerPoolSettings) -> Self {
        let (cpu, oracle) = (CpuEngine::new(1).unwrap(), ArkworksEngine::new(1).unwrap());
        let engines = Engines::on_workers(settings, cpu, oracle, 1 << 20).unwrap();
        let server = serve_with(ServerSettings::default(), engines);
        let client = BlockingClient::connect(&server.target).unwrap();
        Self { name, server, client }
    }

    fn workers(&self) -> Vec<Pid> {
        let is_ours = |worker: &Pid| {
            let line = fs::read(format!("/proc/{}/cmdline", worker.as_raw_nonzero()));
            let line = line.unwrap_or_default();
            line.split(|byte| *byte == 0).any(|argument| argument == self.name.as_bytes())
        };
        children(std::process::id()).into_iter().filter(is_ours).collect()
    }
}

/// The sums of all kinds of MSMs on this many GPUs.
fn check_sums<A: CurvePoint>(name: &'static str, devices: u32, checks: &[Verification]) {
    let Some(spread) = SpreadServer::start(name, devices) else { return };
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
    spread.server.stop();
}

#[test]
fn two_gpus_sum_over_half_of_the_points_each() {
    check_sums::<G1Affine>("spread-two", 2, &CHECKS);
}

#[test]
fn three_gpus_sum_over_a_third_of_the_points_each() {
    check_sums::<G1Affine>("spread-three", 3, &[Verification::None, Verification::Probabilistic]);
}

#[test]
fn gpus_divide_msms_in_g2() {
    check_sums::<G2Affine>("spread-g2", 2, &CHECKS);
}

#[test]
fn small_msms_stay_on_one_gpu_by_default() {
    let name = "spread-default";
    let Some(mut settings) = settings(name, 2) else { return };
    settings.spread = SpreadPolicy::default();
    let spread = SpreadServer::with_settings(name, settings);
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
    let Some(spread) = SpreadServer::start("spread-refusal", 2) else { return };
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
    spread.server.stop();
}

#[test]
fn a_killed_worker_costs_no_spread_msm() {
    const KILLS: usize = 4;
    let Some(spread) = SpreadServer::start("spread-kill", 2) else { return };
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
        for kill in 0..KILLS {
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
