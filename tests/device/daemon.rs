//! The daemon with GPUs, and what it reports if there is none.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use ark_ec::CurveGroup;
use ark_ff::UniformRand;
use ark_poly::{EvaluationDomain, Radix2EvaluationDomain};
use capstan::{
    client::{
        ClientError, Group, NttOptions, PointEncoding, PutOptions, Verification,
        blocking::BlockingClient,
    },
    curve::{Fr, G1Affine, G1Projective, points},
};

use crate::{emulated, shared};

/// Flags of a daemon that serves metrics on a free port.
pub const METRICS: [&str; 2] = ["--metrics-listen", "127.0.0.1:0"];

/// A timeout that only a hang reaches.
const HANGING: Duration = Duration::from_secs(300);

/// Path of the daemon.
pub fn binary() -> PathBuf {
    bundled("capstand").unwrap_or(env!("CARGO_BIN_EXE_capstand").into())
}

/// Path of the command line.
#[cfg(feature = "cli")]
pub fn cli_binary() -> PathBuf {
    bundled("capstan").unwrap_or(env!("CARGO_BIN_EXE_capstan").into())
}

/// A program that is next to this binary, in a bundle of scripts/gpu-bundle.
fn bundled(name: &str) -> Option<PathBuf> {
    Some(std::env::current_exe().unwrap().with_file_name(name)).filter(|path| path.exists())
}

pub fn capstand(flags: &[&str], env: &[(&str, &str)]) -> Command {
    let mut command = Command::new(binary());
    let unless_given = |flag, default| (!flags.contains(&flag)).then_some(default);
    let listen = unless_given("--listen", "--listen=127.0.0.1:0");
    let metrics = unless_given("--metrics-listen", "--metrics-listen=none");
    command
        .env_clear()
        .envs(env.iter().copied())
        .args(["--config", "/dev/null"])
        .args(listen)
        .args(metrics)
        .args(["--threads", "1"])
        .args(flags);
    command
}

/// Runs a daemon that must not start. Returns its exit code and log.
fn run_failing(flags: &[&str], env: &[(&str, &str)]) -> (Option<i32>, String) {
    let flags = [&["--engine", "cuda"], flags].concat();
    let output = capstand(&flags, env).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// The log of a daemon, which grows.
pub type GrowingLog = Arc<Mutex<String>>;

/// A daemon and its log.
pub struct LoggedDaemon {
    pub child: Child,
    pub log: GrowingLog,
    /// Ends when the daemon closes its log.
    reader: JoinHandle<()>,
}

impl LoggedDaemon {
    /// Starts a daemon. A thread reads its log, so that the pipe does not fill up.
    fn spawn(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let log = GrowingLog::default();
        let growing = log.clone();
        let reader = thread::spawn(move || {
            let mut line = Vec::new();
            while stderr.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
                growing.lock().unwrap().push_str(&String::from_utf8_lossy(&line));
                line.clear();
            }
        });
        Self { child, log, reader }
    }

    /// Starts a daemon and waits until it is ready.
    pub fn ready(command: &mut Command) -> Self {
        let daemon = Self::spawn(command);
        daemon.wait_for("ready");
        daemon
    }

    /// Waits until a daemon that uses GPUs is ready.
    pub fn wait_until_gpus_serve(&self) {
        self.wait_for("ready");
        assert!(self.text().contains("passed"), "{}", self.text());
    }

    pub fn is_ready(&self) -> bool {
        self.text().contains("ready")
    }

    /// The log so far.
    pub fn text(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// The URL of its gRPC services, once it listens.
    pub fn target(&self) -> String {
        format!("http://{}", self.logged_address("listening tcp="))
    }

    /// The address of its metrics, once it serves them.
    pub fn metrics(&self) -> SocketAddr {
        self.logged_address("serving metrics address=")
    }

    fn logged_address(&self, words: &str) -> SocketAddr {
        let rest = self.wait_for(words);
        rest.split(' ').next().and_then(|address| address.parse().ok()).expect("an address")
    }

    /// Waits for a line of the log with these words; returns the rest of the line.
    fn wait_for(&self, words: &str) -> String {
        let begun = Instant::now();
        loop {
            let has_ended = self.reader.is_finished();
            let log = self.text();
            if let Some((_, rest)) = log.split_once(words) {
                return rest.lines().next().unwrap_or_default().to_owned();
            }
            assert!(!has_ended && begun.elapsed() < HANGING, "no {words} in:\n{log}");
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// A daemon that uses GPUs and serves metrics.
pub struct MeasuredDaemon {
    pub child: Child,
    pub target: String,
    pub metrics: SocketAddr,
}

/// Ends the daemon with SIGTERM and checks that it exits with 0.
pub fn stop(mut child: Child) {
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// The answer of the listener for metrics.
pub fn http(metrics: SocketAddr, path: &str) -> String {
    http_with(metrics, path, "")
}

/// Like [`http`], with lines of headers.
pub fn http_with(metrics: SocketAddr, path: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(metrics).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// The value of a metric with its labels; 0 if it was never set.
pub fn metric(metrics: SocketAddr, name: &str) -> u64 {
    let text = http(metrics, "/metrics");
    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.map_or(0, |value| value.parse().unwrap())
}

#[test]
fn each_reason_for_no_gpu_is_logged_once() {
    let folder = tempfile::tempdir().unwrap();
    let junk = folder.path().join("libcuda.so");
    std::fs::write(&junk, b"junk").unwrap();
    let absent = folder.path().join("no/libcuda.so");
    let driver = |path: &Path| path.to_str().unwrap().to_owned();
    let mut cases = vec![
        (driver(&absent), vec![], vec![], "no CUDA driver: "),
        (driver(&junk), vec![], vec![], "no CUDA driver: "),
        ("libc.so.6".to_owned(), vec![], vec![], "cannot be used as the CUDA driver"),
    ];
    if let Some(library) = emulated::driver() {
        let library = driver(&library);
        cases.push((library.clone(), vec![], vec![("EMU_DEVICES", "0")], "reports no device"));
        let flags = vec!["--cuda-devices", "1"];
        cases.push((library, flags, vec![("EMU_DEVICES", "1")], "CUDA device 1 does not exist"));
    }
    for (driver, flags, env, sentence) in cases {
        let flags = [&["--cuda-driver", &driver], &flags[..]].concat();
        let (code, log) = run_failing(&flags, &env);
        assert_eq!(code, Some(69), "{sentence}: {log}");
        assert_eq!(log.matches(sentence).count(), 1, "{sentence}: {log}");
        // Without `--engine`, the sentence is the reason for falling back to the CPU.
        let daemon = LoggedDaemon::ready(&mut capstand(&flags, &env));
        let log = daemon.text();
        assert!(log.contains(sentence), "{sentence}: {log}");
        stop(daemon.child);
    }
}

/// Starts a daemon that uses GPUs, with these flags. Returns its process and address.
pub fn start(flags: &[&str], env: &[(&str, &str)]) -> (Child, String) {
    let daemon = start_with_log(flags, env);
    let target = daemon.target();
    (daemon.child, target)
}

/// Like [`start`], with metrics and their address.
pub fn start_with_metrics(flags: &[&str], env: &[(&str, &str)]) -> MeasuredDaemon {
    let daemon = start_with_log(&[&METRICS[..], flags].concat(), env);
    MeasuredDaemon { target: daemon.target(), metrics: daemon.metrics(), child: daemon.child }
}

/// Like [`start`], with the daemon's log.
pub fn start_with_log(flags: &[&str], env: &[(&str, &str)]) -> LoggedDaemon {
    let daemon = spawn_on_gpus(flags, env);
    daemon.wait_until_gpus_serve();
    daemon
}

/// Like [`start_with_log`], for a daemon that may not listen yet.
pub fn spawn_on_gpus(flags: &[&str], env: &[(&str, &str)]) -> LoggedDaemon {
    LoggedDaemon::spawn(&mut command_on_gpus(flags, env))
}

/// Like [`spawn_on_gpus`], for a daemon that ends when its standard input is closed, at the latest
/// when this process ends. Its folder is then removed.
pub fn spawn_shared(folder: &Path, flags: &[&str], env: &[(&str, &str)]) -> LoggedDaemon {
    let daemon = command_on_gpus(flags, env);
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "\"$@\" & read _; kill $!; wait $!; rm -rf \"$0\""]).arg(folder);
    shell.arg(daemon.get_program()).args(daemon.get_args()).env_clear();
    shell.envs(env.iter().copied()).stdin(Stdio::piped());
    LoggedDaemon::spawn(&mut shell)
}

fn command_on_gpus(flags: &[&str], env: &[(&str, &str)]) -> Command {
    let driver = emulated::driver().map(|path| path.to_str().unwrap().to_owned());
    let driver = driver.as_deref().unwrap_or("none");
    let own = ["--cuda-driver", driver, "--cuda-memory-percent", "10"];
    // By default, a daemon pins gigabytes, which takes it longer than its self-test.
    let pinned = ["--cuda-pinned-bytes", "64MiB"];
    capstand(&[&own[..], &pinned, flags].concat(), env)
}

/// Starts a daemon with `--engine cuda` and connects a client to it.
pub fn start_with_client(env: &[(&str, &str)]) -> (Child, BlockingClient) {
    let (child, address) = start(&["--engine", "cuda"], env);
    (child, BlockingClient::connect(address).unwrap())
}

/// Enough points for the GPU to check them.
fn points_for_the_gpu() -> Vec<G1Affine> {
    let one = G1Projective::rand(&mut ark_std::test_rng());
    let sums = std::iter::successors(Some(one), |sum| Some(sum + one)).take(5000);
    G1Projective::normalize_batch(&sums.collect::<Vec<_>>())
}

#[test]
fn put_checks_points_on_the_gpu() {
    let client = BlockingClient::connect(&shared::daemon().target).unwrap();
    let info = client.info().unwrap();
    let gpus: Vec<_> = info.devices.iter().filter_map(|device| device.gpu.as_ref()).collect();
    assert!(!gpus.is_empty() && gpus.iter().all(|gpu| gpu.self_test.starts_with("passed")));
    assert!(gpus.iter().all(|gpu| gpu.emulated == emulated::driver().is_some()));
    let points = points_for_the_gpu();
    for encoding in [PointEncoding::Montgomery, PointEncoding::Uncompressed] {
        let mut bytes = points::encode(encoding, &points);
        let put =
            |bytes: &[u8]| client.put_encoded(Group::G1, encoding, bytes, PutOptions::default());
        assert_eq!(put(&bytes).unwrap().count, points.len() as u64);
        bytes[4321 * 96 + 50] ^= 1;
        bytes[4444 * 96 + 50] ^= 1;
        let Err(ClientError::Refused(refusal)) = put(&bytes) else {
            panic!("accepted a bad point")
        };
        assert_eq!((refusal.reason_text.as_str(), refusal.index), ("NOT_ON_CURVE", Some(4321)));
    }
}

#[test]
fn transforms_run_on_the_gpu() {
    let client = BlockingClient::connect(&shared::daemon().target).unwrap();
    let mut rng = ark_std::test_rng();
    // Inline and streamed; on a GPU and on the CPU.
    for (lg_n, batch, engine) in [(12, 1, "cuda"), (10, 40, "cuda"), (14, 3, "cuda"), (3, 1, "cpu")]
    {
        let input: Vec<Fr> = (0..batch << lg_n).map(|_| Fr::rand(&mut rng)).collect();
        let domain = Radix2EvaluationDomain::<Fr>::new(1 << lg_n).unwrap();
        let rows = input.chunks(1 << lg_n).flat_map(|row| domain.fft(row));
        let expected: Vec<Fr> = rows.collect();
        for verify in [Verification::None, Verification::Probabilistic, Verification::Full] {
            let mut values = input.clone();
            let options = NttOptions { batch: batch as u32, verify, ..NttOptions::default() };
            let report = client.ntt(&mut values, options).unwrap();
            assert!(values == expected, "2^{lg_n}, {verify:?}");
            assert_eq!(report.execution.engine, engine, "{}", report.execution.device);
        }
    }
}

#[test]
fn a_lost_gpu_ends_a_daemon_without_workers() {
    if emulated::driver().is_none() {
        println!("skipped: faults are not injected into a GPU");
        return;
    }
    // The self-test launches it three times.
    let env = [("EMU_FAULT", "g1_check_points:4:700")];
    let (mut child, address) = start(&["--engine", "cuda", "--gpu-isolation", "none"], &env);
    let client = BlockingClient::connect(address).unwrap();
    let bytes = points::encode(PointEncoding::Montgomery, &points_for_the_gpu());
    let options = PutOptions { deadline: Some(Duration::from_secs(10)), ..PutOptions::default() };
    let put = client.put_encoded(Group::G1, PointEncoding::Montgomery, &bytes, options);
    assert!(put.is_err(), "a lost device returned a result");
    assert_eq!(child.wait().unwrap().code(), Some(70));
}

/// Copies of a hanging GPU may be under way, so that a daemon that goes on could send or overwrite
/// the memory of another call.
#[test]
fn a_hanging_gpu_ends_a_daemon_without_workers_before_it_answers() {
    if emulated::driver().is_none() {
        println!("skipped: faults are not injected into a GPU");
        return;
    }
    let env = [("EMU_FAULT", "g1_check_points:4:hang")];
    let flags = ["--engine", "cuda", "--gpu-isolation", "none", "--cuda-timeout-ms", "6000"];
    let (mut child, address) = start(&flags, &env);
    let client = BlockingClient::connect(address).unwrap();
    let bytes = points::encode(PointEncoding::Montgomery, &points_for_the_gpu());
    // Too short for a retry, before which the client would wait for 15 s.
    let options = PutOptions { deadline: Some(Duration::from_secs(20)), ..PutOptions::default() };
    match client.put_encoded(Group::G1, PointEncoding::Montgomery, &bytes, options) {
        Err(ClientError::Refused(refusal)) => assert_ne!(refusal.reason_text, "DEVICE_LOST"),
        Err(_) => {}
        Ok(_) => panic!("a hanging device returned a result"),
    }
    assert_eq!(child.wait().unwrap().code(), Some(70));
}

/// One transient fault must not stay in stored bases for good.
#[test]
fn points_that_a_gpu_decodes_wrong_are_not_stored() {
    if emulated::driver().is_none() {
        return println!("skipped: wrong results cannot be injected into a GPU");
    }
    // The first launch after the self-test.
    let (child, client) = start_with_client(&[("EMU_FAULT", "g1_check_points:4:flip0")]);
    let points = points_for_the_gpu();
    let (encoding, options) = (PointEncoding::Uncompressed, PutOptions::default());
    let bytes = points::encode(encoding, &points);
    let put = client.put_encoded(Group::G1, encoding, &bytes, options).unwrap();
    assert_eq!(put.id.0, points::content_hash(&points), "other points were stored");
    stop(child);
}

#[test]
fn a_device_that_computes_wrong_is_not_used() {
    if emulated::driver().is_none() {
        return println!("skipped: wrong results cannot be injected into a GPU");
    }
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/device/wrong");
    let library = emulated::build("wrong", &kernels, &[]);
    let flags = ["--cuda-driver", library.to_str().unwrap(), "--cuda-memory-percent", "5"];
    let sentence = "device 0: the device computes wrong results: selftest_words";
    let (code, log) = run_failing(&flags, &[]);
    assert!(code == Some(69) && log.contains(sentence), "{log}");
    let daemon = LoggedDaemon::ready(&mut capstand(&flags, &[]));
    assert!(daemon.text().contains(sentence), "{}", daemon.text());
    stop(daemon.child);
}
