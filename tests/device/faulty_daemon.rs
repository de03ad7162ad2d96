//! A daemon with workers, in whose drivers tests plan faults.

use std::{net::SocketAddr, process::Child, time::Duration};

use capstan::client::{Client, blocking::BlockingClient};

use crate::{
    daemon::{GrowingLog, METRICS, metric, start_with_log},
    emulated,
    fault_file::{FaultFile, dropped_after},
    workers::{all_serve, wait_for_successors, wait_until},
};

/// The number of emulated devices.
const DEVICES: usize = 2;

/// A call that takes longer never ends.
const CALL_TIMEOUT: Duration = Duration::from_secs(300);

/// A daemon with workers on two emulated devices.
pub struct FaultyDaemon {
    pub child: Child,
    pub address: String,
    metrics: SocketAddr,
    log: GrowingLog,
    file: FaultFile,
}

impl FaultyDaemon {
    /// `None` on a GPU, in whose driver no faults can be planned.
    pub fn start(flags: &[&str]) -> Option<Self> {
        Self::start_with_faults(flags, "")
    }

    /// Like [`Self::start`], with these faults of workers that start before the first plan.
    pub fn start_with_faults(flags: &[&str], of_starts: &str) -> Option<Self> {
        if emulated::driver().is_none() {
            println!("skipped: faults are not injected into a GPU");
            return None;
        }
        let file = FaultFile::new(of_starts);
        let devices = DEVICES.to_string();
        let (name, path) = file.setting();
        let env = [("EMU_DEVICES", &*devices), (name, &*path)];
        let own = ["--engine", "cuda"];
        let daemon = start_with_log(&[&own[..], &METRICS, flags].concat(), &env);
        Some(Self {
            address: daemon.target(),
            metrics: daemon.metrics(),
            child: daemon.child,
            log: daemon.log,
            file,
        })
    }

    /// Like [`FaultFile::plan`].
    pub fn plan(&self, faults: &str) {
        self.file.plan(faults, "");
    }

    /// Like [`Self::plan`], with faults of workers that start before the next plan.
    pub fn plan_with_starts(&self, faults: &str, of_starts: &str) {
        self.file.plan(faults, of_starts);
    }

    /// A client that repeats no call.
    pub fn client(&self) -> BlockingClient {
        let builder = Client::builder(&self.address).retries(0).deadline(CALL_TIMEOUT);
        BlockingClient::from_builder(builder).unwrap()
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

    /// The most calls that a worker has reported for a planned fault that it had not reached when
    /// the plan was replaced; `None` if there is no report yet.
    pub fn dropped_after(&self, fault: &str) -> Option<u64> {
        dropped_after(&self.log.lock().unwrap(), fault).into_iter().max()
    }

    /// Waits until both GPUs serve after the loss of `restarts` workers since the daemon's start.
    pub fn wait_for_both_gpus(&self, restarts: u64) {
        wait_for_successors(&self.child, self.metrics, restarts, DEVICES);
    }

    /// Waits until both GPUs serve after the loss of all workers whose processes have ended. A call
    /// that was repeated or refused after the loss of its worker returns after that process's end.
    pub fn wait_for_ended_workers(&self) {
        wait_until("both GPUs serve", || self.both_gpus_serve());
    }

    /// Whether a worker serves on each GPU, after all losses of workers that had ended before.
    pub fn both_gpus_serve(&self) -> bool {
        all_serve(&self.child, self.metrics, DEVICES)
    }
}
