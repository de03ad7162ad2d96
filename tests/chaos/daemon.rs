//! A daemon in a child process.

use std::{
    fmt::Debug,
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use ark_ec::CurveGroup;
use ark_poly::{EvaluationDomain, Radix2EvaluationDomain};
use capstan::{
    client::{Client, ClientBuilder, ClientError, NttOptions},
    curve::{Fr, G1Affine, G1Projective},
};
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::sleep;

use crate::faults::Faults;

/// A timeout that only a hang reaches.
pub const HANGING: Duration = Duration::from_secs(60);

pub struct Daemon {
    child: Child,
    log: Arc<Mutex<String>>,
    /// Ends when the daemon closes its log.
    reader: JoinHandle<()>,
    pub target: String,
}

/// How to start a daemon.
#[derive(Default)]
pub struct DaemonOptions<'a> {
    pub flags: &'a [&'a str],
    pub faults: Option<(&'a Faults, &'a Path)>,
    /// Shell commands before the start, such as `ulimit -n 100; `.
    pub prepare: &'a str,
}

impl Daemon {
    pub fn start(flags: &[&str]) -> Self {
        Self::start_with(&DaemonOptions { flags, ..DaemonOptions::default() })
    }

    /// Starts a daemon on a free port and waits until it is ready.
    pub fn start_with(options: &DaemonOptions<'_>) -> Self {
        let &DaemonOptions { flags, faults, prepare } = options;
        // The shell becomes the daemon.
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &format!("{prepare}exec \"$0\" \"$@\"")]);
        command.arg(env!("CARGO_BIN_EXE_capstand")).env_clear();
        command.args(["--config", "/dev/null", "--listen", "127.0.0.1:0", "--engine", "cpu"]);
        command.args(["--metrics-listen", "none", "--threads", "1"]).args(flags);
        if let Some((faults, data_dir)) = faults {
            command.envs(faults.variables(data_dir));
        }
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let log = Arc::<Mutex<String>>::default();
        let written = log.clone();
        let reader = thread::spawn(move || {
            lines.for_each(|line| *written.lock().unwrap() += &(line + "\n"));
        });
        let mut daemon = Self { child, log, reader, target: String::new() };
        daemon.target = format!("http://{}", daemon.until_ready());
        daemon
    }

    /// Waits for the log line that reports readiness; returns the address in it.
    fn until_ready(&self) -> String {
        let begun = Instant::now();
        loop {
            let has_ended = self.reader.is_finished();
            let log = self.log();
            if let Some(line) = log.lines().find(|line| line.contains(" ready ")) {
                let address = line.split("tcp=").nth(1).unwrap().split_whitespace().next();
                return address.unwrap().to_owned();
            }
            assert!(!has_ended && begun.elapsed() < HANGING, "never ready:\n{log}");
            thread::sleep(Duration::from_millis(2));
        }
    }

    pub fn address(&self) -> &str {
        self.target.split("//").nth(1).unwrap()
    }

    /// A client that repeats no call.
    pub fn client(&self) -> ClientBuilder {
        Client::builder(&self.target).retries(0).connections(1)
    }

    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Bytes of a field of `/proc/PID/status`, such as `VmRSS:`.
    pub fn status_bytes(&self, field: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// The number of its open files.
    pub fn files(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// Ends it at once, like a crash.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends it with SIGTERM; it must exit with 0.
    pub fn stop(mut self) {
        kill_process(self.pid(), Signal::TERM).unwrap();
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(begun.elapsed() < HANGING, "the daemon does not exit:\n{}", self.log());
            thread::sleep(Duration::from_millis(2));
        };
        assert_eq!(status.code(), Some(0), "{}", self.log());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// The first multiples of `(seed + 1)·G`: others for each seed.
pub fn points(seed: u64, count: usize) -> Vec<G1Affine> {
    let one = G1Projective::from(<G1Affine as ark_ec::AffineRepr>::generator());
    let one = one * Fr::from(seed + 1);
    let sums = std::iter::successors(Some(one), |sum| Some(sum + one)).take(count);
    G1Projective::normalize_batch(&sums.collect::<Vec<_>>())
}

/// A transform whose result is checked: a call that needs neither disk nor much memory.
pub async fn compute(client: &Client) -> Result<(), ClientError> {
    let input: Vec<Fr> = (0..64).map(Fr::from).collect();
    let mut values = input.clone();
    client.ntt(&mut values, NttOptions::forward()).await?;
    assert!(values == Radix2EvaluationDomain::<Fr>::new(64).unwrap().fft(&input), "a wrong result");
    Ok(())
}

/// Calls `ask` until it returns `Ok`. Panics with the last error after [`HANGING`].
pub async fn until_ok<T, E: Debug>(what: &str, mut ask: impl AsyncFnMut() -> Result<T, E>) -> T {
    let begun = Instant::now();
    loop {
        match ask().await {
            Ok(value) => return value,
            Err(error) => assert!(begun.elapsed() < HANGING, "never: {what}; last: {error:?}"),
        }
        sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until the daemon has no jobs and no bytes in flight.
pub async fn until_idle(client: &Client) {
    until_ok("nothing in flight", async || {
        let load = client.info().await.unwrap().load.unwrap();
        if load.jobs == 0 && load.bytes_in_flight == 0 { Ok(()) } else { Err(load) }
    })
    .await;
}
