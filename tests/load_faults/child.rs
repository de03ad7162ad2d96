//! A daemon with GPUs, tenants and a data directory in its own process, and what it holds.

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
};

use capstan::{
    client::{Client, ClientBuilder},
    identity::{BearerToken, TokenEntry, add_token},
};
use rustix::process::Pid;
use tempfile::TempDir;

use crate::{
    daemon_process::{DaemonProcess, capstand},
    emulated,
};

/// Allowed growth of the resident memory between middle and end: the allocator keeps free blocks,
/// and the pool of payloads its spare memory.
const GROWTH_BYTES: u64 = 96 << 20;

/// Housekeeping uses a thread for blocking work every ten seconds, and the runtime keeps idle ones
/// for as long.
const SPARE_THREADS: u64 = 2;

/// The daemon keeps a socket to a worker for each request that was in progress at the same time,
/// and a new worker begins without any. Fewer than the faults of the shortest run.
const SPARE_FILES: u64 = 8;

/// The number of tenants, between which callers are divided.
pub const TENANTS: u64 = 4;

pub struct ChildDaemon {
    process: DaemonProcess,
    metrics: SocketAddr,
    /// One of each tenant.
    tokens: Vec<BearerToken>,
    /// Its files of tokens and tenants, and its data directory.
    _folder: TempDir,
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
        let driver = emulated::driver().map(|path| path.to_str().unwrap().to_owned());
        let own = ["--engine", "cuda", "--threads", "1"];
        let driver = ["--cuda-driver", driver.as_deref().unwrap_or("none")];
        let memory = ["--cuda-memory-percent", "10"];
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let (token_file, tenant_file, data_dir) =
            (path("tokens.toml"), path("tenants.toml"), path("data"));
        let mut entries = String::new();
        let tokens = (0..TENANTS).map(|tenant| {
            let (name, token) = (format!("tenant-{tenant}"), BearerToken::generate().unwrap());
            let (tenant, hash) = (Some(name.clone()), token.hash());
            let entry = TokenEntry { name, tenant, hash, expires: None };
            entries = add_token(&entries, &entry).unwrap();
            token
        });
        let tokens = tokens.collect();
        // Of equal weights: on a busy host, a call of a tenant with a small one takes minutes.
        let tenants = (0..TENANTS).map(|n| format!("[tenants.tenant-{n}]\n"));
        fs::write(&token_file, entries).unwrap();
        fs::write(&tenant_file, tenants.collect::<String>()).unwrap();
        fs::create_dir(&data_dir).unwrap();
        let files = ["--auth-tokens", &token_file, "--tenants", &tenant_file];
        let data = ["--data-dir", &data_dir];
        let all = [&own, &driver[..], &memory, &files, &data, flags].concat();
        let mut command = capstand(&all);
        command.env("EMU_DEVICES", gpus.to_string());
        let process = DaemonProcess::start(command);
        Self { metrics: process.metrics_address(), process, tokens, _folder: folder }
    }

    pub fn target(&self) -> String {
        self.process.target()
    }

    /// The token of caller `number`.
    pub fn token(&self, number: u64) -> &str {
        self.tokens[(number % TENANTS) as usize].text()
    }

    /// A client of caller `number`, with one connection.
    pub fn client(&self, number: u64) -> ClientBuilder {
        Client::builder(self.target()).token(self.token(number)).connections(1)
    }

    pub fn address(&self) -> SocketAddr {
        self.process.address()
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
            if fields[1] == self.process.id().to_string() {
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
        let tasks = format!("/proc/{}/task", self.process.id());
        ChildResources {
            resident_bytes: self.process.status_bytes("VmRSS:"),
            threads: fs::read_dir(tasks).unwrap().count() as u64,
            files: self.process.files() as u64,
            children: self.children().len() as u64,
        }
    }

    pub fn stop(self) {
        self.process.stop();
    }
}
