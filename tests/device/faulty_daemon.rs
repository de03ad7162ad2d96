//! A daemon with workers, in whose drivers tests plan faults.

use std::{fs, net::SocketAddr, path::PathBuf, process::Child};

use capstan::client::{Client, blocking::BlockingClient};
use tempfile::TempDir;

use crate::{
    daemon::{GrowingLog, free_address, metric, start_with_log},
    emulated,
    workers::{all_serve, wait_for_successors, wait_until},
};

/// The number of emulated devices.
const DEVICES: usize = 2;

/// A daemon with workers on two emulated devices.
pub struct FaultyDaemon {
    pub child: Child,
    pub address: String,
    metrics: SocketAddr,
    log: GrowingLog,
    faults: FaultFile,
}

/// Plans faults in the drivers of workers whose environment has [`FaultFile::variable`].
pub struct FaultFile(TempDir);

impl FaultyDaemon {
    /// `None` on a GPU, in whose driver no faults can be planned.
    pub fn start(flags: &[&str]) -> Option<Self> {
        if emulated::driver().is_none() {
            println!("skipped: faults are not injected into a GPU");
            return None;
        }
        let faults = FaultFile::new();
        let (metrics, devices) = (free_address(), DEVICES.to_string());
        let (name, file) = faults.variable();
        let env = [("EMU_DEVICES", &*devices), (name, &*file)];
        let listen = metrics.to_string();
        let own = ["--engine", "cuda", "--metrics-listen", &listen];
        let (child, log, address) = start_with_log(&[&own, flags].concat(), &env);
        Some(Self { child, address, metrics, log, faults })
    }

    /// Like [`FaultFile::plan`].
    pub fn plan(&self, faults: &str) {
        self.faults.plan(faults);
    }

    /// A client that repeats no call.
    pub fn client(&self) -> BlockingClient {
        BlockingClient::from_builder(Client::builder(&self.address).retries(0)).unwrap()
    }

    /// The value of a metric with its labels; 0 if it was never set.
    pub fn metric(&self, name: &str) -> u64 {
        metric(self.metrics, name)
    }

    /// The lines of the log that contain all of `parts`.
    pub fn logged(&self, parts: &[&str]) -> usize {
        let log = self.log.lock().unwrap();
        log.lines().filter(|line| parts.iter().all(|part| line.contains(part))).count()
    }

    /// Waits for `count` lines of the log that contain all of `parts`: a thread reads the log, so
    /// that lines may come later than what they report. Panics if there are more.
    pub fn wait_for_logged(&self, parts: &[&str], count: usize) {
        let what = format!("{count} lines with {parts:?}");
        wait_until(&what, || self.logged(parts) >= count);
        assert_eq!(self.logged(parts), count, "{what}");
    }

    /// Waits until both GPUs serve after the loss of `restarts` workers since the daemon's start.
    pub fn wait_for_both_gpus(&self, restarts: u64) {
        wait_for_successors(&self.child, self.metrics, restarts, DEVICES);
    }

    /// Waits until both GPUs serve after the loss of all workers whose processes have ended. A call
    /// that was repeated or refused after the loss of its worker returns after that process's end.
    pub fn wait_for_ended_workers(&self) {
        wait_until("both GPUs serve", || all_serve(&self.child, self.metrics, DEVICES));
    }
}

impl FaultFile {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("faults")
    }

    /// The name and value of the environment variable that names the file.
    pub fn variable(&self) -> (&'static str, String) {
        ("EMU_FAULT_FILE", self.path().display().to_string())
    }

    /// Replaces the planned faults of the workers that serve; workers that start later have none.
    pub fn plan(&self, faults: &str) {
        let new = self.0.path().join("new");
        fs::write(&new, faults).unwrap();
        fs::rename(new, self.path()).unwrap();
    }
}
