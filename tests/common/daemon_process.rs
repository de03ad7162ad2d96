//! A daemon in a child process, and its log. Any test crate may include this module.
#![allow(dead_code)] // no test crate uses everything

use std::{
    fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use capstan::client::{Client, ClientBuilder};
use rustix::process::{Pid, Signal, kill_process};

/// A timeout that only a hang reaches.
pub const HANGING: Duration = Duration::from_secs(60);

/// A daemon with these flags, on free ports unless the flags specify others. It gets neither the
/// variables of this process nor the host's configuration.
pub fn capstand(flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_capstand"));
    command.env_clear().args(["--config", "/dev/null"]).args(flags);
    for listener in ["CAPSTAN_LISTEN", "CAPSTAN_METRICS_LISTEN"] {
        command.env(listener, "127.0.0.1:0");
    }
    command
}

/// The address in a field of a log line, which is plain text or JSON.
fn address_in(line: &str, field: &str) -> Option<SocketAddr> {
    let formats = [(format!(" {field}="), ' '), (format!("\"{field}\":\""), '"')];
    formats.iter().find_map(|(begin, end)| {
        let (_, rest) = line.split_once(begin.as_str())?;
        rest.split(*end).next()?.parse().ok()
    })
}

/// A running daemon, killed on drop.
pub struct DaemonProcess {
    child: Child,
    /// The address of gRPC over TCP.
    address: Option<SocketAddr>,
    log: Arc<Mutex<String>>,
    /// Ends when the daemon closes its log.
    reader: JoinHandle<()>,
    /// The length of the log that [`Self::until`] has passed.
    seen: usize,
}

impl DaemonProcess {
    /// Starts a daemon. A thread reads its log, so that the pipe does not fill up.
    pub fn spawn(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the daemon is built");
        let stderr = child.stderr.take().expect("piped");
        let log = Arc::<Mutex<String>>::default();
        let written = log.clone();
        let reader = thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                *written.lock().unwrap() += &(line + "\n");
            }
        });
        Self { child, address: None, log, reader, seen: 0 }
    }

    /// Starts a daemon and waits until it listens.
    pub fn listening(command: Command) -> Self {
        let mut daemon = Self::spawn(command);
        daemon.address = address_in(&daemon.until("listening"), "tcp");
        daemon
    }

    /// Starts a daemon and waits until it is ready.
    pub fn start(command: Command) -> Self {
        let mut daemon = Self::listening(command);
        daemon.until("ready");
        daemon
    }

    /// Waits for the next line of the log that contains `word`; returns that line.
    pub fn until(&mut self, word: &str) -> String {
        let begun = Instant::now();
        loop {
            let has_ended = self.reader.is_finished();
            let log = self.log();
            while let Some(length) = log[self.seen..].find('\n') {
                let line = &log[self.seen..][..length];
                self.seen += length + 1;
                if line.contains(word) {
                    return line.to_owned();
                }
            }
            assert!(!has_ended && begun.elapsed() < HANGING, "no {word} in:\n{log}");
            thread::sleep(Duration::from_millis(2));
        }
    }

    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    pub fn address(&self) -> SocketAddr {
        self.address.expect("the log has the address")
    }

    /// The address of metrics and probes. The daemon logs it before it listens for gRPC.
    pub fn metrics_address(&self) -> SocketAddr {
        let log = self.log();
        let line = log.lines().find(|line| line.contains("serving metrics"));
        let address = line.and_then(|line| address_in(line, "address"));
        address.unwrap_or_else(|| panic!("no address of metrics in:\n{log}"))
    }

    pub fn target(&self) -> String {
        format!("http://{}", self.address())
    }

    /// A client with one connection that repeats no call.
    pub fn client(&self) -> ClientBuilder {
        Client::builder(self.target()).retries(0).connections(1)
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Bytes of a field of `/proc/PID/status`, such as `VmRSS:`.
    pub fn status_bytes(&self, field: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// The number of its open files.
    pub fn files(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.id())).unwrap().count()
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for the daemon to exit and for the end of its log; returns the exit code.
    pub fn wait(&mut self) -> Option<i32> {
        let begun = Instant::now();
        while !(self.has_ended() && self.reader.is_finished()) {
            assert!(begun.elapsed() < HANGING, "the daemon does not exit:\n{}", self.log());
            thread::sleep(Duration::from_millis(2));
        }
        self.child.wait().unwrap().code()
    }

    /// Ends it with SIGTERM; it must exit with 0.
    pub fn stop(mut self) {
        self.signal(Signal::TERM);
        assert_eq!(self.wait(), Some(0), "{}", self.log());
    }

    /// Ends it at once, like a crash.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for DaemonProcess {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}
