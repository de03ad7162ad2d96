//! A daemon with GPUs in its own process, and what it holds.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
};

use rustix::process::{Pid, Signal, kill_process};

use crate::emulated;

/// Allowed growth of the resident memory between middle and end: the allocator keeps free blocks,
/// and the pool of payloads its spare memory.
const GROWTH_BYTES: u64 = 96 << 20;

/// Housekeeping uses a thread for blocking work every ten seconds, and the runtime keeps idle ones
/// for as long.
const SPARE_THREADS: u64 = 2;

/// The daemon keeps a socket to a worker for each request that was in progress at the same time,
/// and a new worker begins without any. Fewer than the faults of the shortest run.
const SPARE_FILES: u64 = 8;

pub struct ChildDaemon {
    child: Child,
    pub target: String,
    metrics: SocketAddr,
}

/// What a daemon holds.
#[derive(Debug)]
pub struct ChildResources {
    resident_bytes: u64,
    threads: u64,
    files: u64,
    /// Processes that it has started, ended ones that it has not waited for included.
    children: u64,
}

impl ChildResources {
    /// Whether nothing has grown since `before`; the memory may grow by [`GROWTH_BYTES`].
    pub fn is_within(&self, before: &Self) -> bool {
        self.resident_bytes <= before.resident_bytes + GROWTH_BYTES
            && self.threads <= before.threads + SPARE_THREADS
            && self.files <= before.files + SPARE_FILES
            && self.children <= before.children
    }
}

impl ChildDaemon {
    /// Starts a daemon with `gpus` GPUs, which are emulated if the host has none.
    pub fn start(flags: &[&str], gpus: usize) -> Self {
        // A loopback address made from the process id, so that no other test takes the port.
        let [_, high, middle, low] = std::process::id().to_be_bytes();
        let metrics = SocketAddr::from((Ipv4Addr::new(127, 64 + high, middle, low), 9470));
        let driver = emulated::driver().map(|path| path.to_str().unwrap().to_owned());
        let mut command = Command::new(env!("CARGO_BIN_EXE_capstand"));
        command.env_clear().env("EMU_DEVICES", gpus.to_string());
        command.args(["--config", "/dev/null", "--listen", "127.0.0.1:0", "--engine", "cuda"]);
        command.args(["--cuda-driver", driver.as_deref().unwrap_or("none")]);
        command.args(["--cuda-memory-percent", "10", "--threads", "1"]);
        command.args(["--metrics-listen", &metrics.to_string()]).args(flags);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut text = String::new();
        while !text.lines().next_back().is_some_and(|line| line.contains(" ready ")) {
            assert!(log.read_line(&mut text).unwrap() > 0, "never ready:\n{text}");
        }
        let address = text.split("tcp=").nth(1).unwrap().split_whitespace().next().unwrap();
        let target = format!("http://{address}");
        // Drains the log, so that the pipe does not fill up.
        thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Self { child, target, metrics }
    }

    /// The processes of its GPUs that run.
    pub fn workers(&self) -> Vec<Pid> {
        let is_running = |(id, state): (i32, char)| (state != 'Z').then(|| Pid::from_raw(id));
        self.children().into_iter().filter_map(is_running).flatten().collect()
    }

    /// The ids and states of the processes that it has started.
    fn children(&self) -> Vec<(i32, char)> {
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let id = entry.file_name().to_str().and_then(|name| name.parse().ok());
            // It may have ended meanwhile.
            let stat = fs::read_to_string(entry.path().join("stat"));
            let (Some(id), Ok(stat)) = (id, stat) else { continue };
            let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
            if fields[1] == self.child.id().to_string() {
                found.push((id, fields[0].chars().next().unwrap()));
            }
        }
        found.sort_unstable();
        found
    }

    /// The value of a metric with its labels; 0 if it was never set.
    pub async fn metric(&self, name: &'static str) -> u64 {
        let metrics = self.metrics;
        let read = move || {
            let mut stream = TcpStream::connect(metrics).unwrap();
            let request = b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
            stream.write_all(request).unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            value.map_or(0, |value| value.parse().unwrap())
        };
        tokio::task::spawn_blocking(read).await.unwrap()
    }

    pub fn resources(&self) -> ChildResources {
        let folder = format!("/proc/{}", self.child.id());
        let status = fs::read_to_string(format!("{folder}/status")).unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let kib: u64 = resident.trim().trim_end_matches(" kB").parse().unwrap();
        let count = |folder: String| fs::read_dir(Path::new(&folder)).unwrap().count() as u64;
        ChildResources {
            resident_bytes: kib << 10,
            threads: count(format!("{folder}/task")),
            files: count(format!("{folder}/fd")),
            children: self.children().len() as u64,
        }
    }

    /// Ends it with SIGTERM; it must exit with 0.
    pub fn stop(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

impl Drop for ChildDaemon {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}
