//! Shared by the end-to-end benches: a server in this process, an idle engine, and statistics.
#![allow(dead_code)] // no bench uses all of it

use std::{
    fs,
    sync::mpsc,
    thread::{self, JoinHandle},
    time::Duration,
};

use ark_ec::AffineRepr;
use ark_ff::Zero;
use capstan::{
    curve::{
        G1Affine, G1Projective, G2Projective, Group,
        points::{Bases, MsmSums},
    },
    engine::{
        ComputedMsm, DeviceInfo, EncodedScalars, EngineModel, EngineWork, ExecutedBy, JobControl,
        MsmNttEngine, MsmRun, NttPlan, NttRows,
    },
    error::Result,
    field::{Element31, Field31},
    server::{Drainer, Engines, Server, ServerSettings},
};
use tempfile::TempDir;

/// A server that runs on its own threads and listens on TCP and on a Unix socket.
pub struct BenchServer {
    /// `http://127.0.0.1:port`
    pub tcp: String,
    /// `unix:/path`
    pub unix: String,
    drainer: Drainer,
    thread: Option<JoinHandle<()>>,
    _folder: TempDir,
}

impl Drop for BenchServer {
    fn drop(&mut self) {
        self.drainer.drain(None);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the server ends cleanly");
        }
    }
}

/// Starts a server on a free port and on a socket in a temporary folder.
pub fn serve(engines: Engines, settings: ServerSettings) -> BenchServer {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("capstan.sock");
    let settings = ServerSettings {
        listen: Some(([127, 0, 0, 1], 0).into()),
        unix_socket: Some(socket.clone()),
        ..settings
    };
    let (told, listening) = mpsc::channel();
    let thread = thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().expect("threads for a server");
        runtime.block_on(async {
            let server = Server::bind(settings, engines).await.expect("a free port");
            let address = server.tcp_address().expect("listens on TCP");
            told.send((address, server.drainer())).expect("the receiver waits");
            server.serve().await.expect("serves until it is drained");
        });
    });
    let (address, drainer) = listening.recv().expect("the server starts");
    BenchServer {
        tcp: format!("http://{address}"),
        unix: format!("unix:{}", socket.display()),
        drainer,
        thread: Some(thread),
        _folder: folder,
    }
}

/// An engine that computes nothing, so that only transport is measured: the result of an NTT is its
/// input.
pub struct IdleEngine;

pub fn idle_engines() -> Engines {
    Engines::on_host(IdleEngine, IdleEngine, "a bench")
}

/// Bytes that an NTT copies at once.
const NTT_PIECE: usize = 256 << 10;

impl EngineModel for IdleEngine {
    fn description(&self) -> DeviceInfo {
        DeviceInfo { name: "none".into(), kind: "none", units: 1, memory_bytes: 0, gpu: None }
    }

    fn msm_piece_len(&self, _: Group, n: usize) -> usize {
        n
    }

    fn msm_scratch_bytes(&self, _: Group, _: usize) -> u64 {
        0
    }

    fn modelled_time(&self, _: &EngineWork) -> Duration {
        Duration::ZERO
    }
}

impl MsmNttEngine for IdleEngine {
    fn msm(&self, bases: Bases, batch: usize) -> Result<Box<dyn MsmRun>> {
        Ok(Box::new(IdleRun { group: bases.group(), batch, taken: Vec::new() }))
    }

    /// Copies the rows from the upload to the result, as every engine must.
    fn ntt(&self, _: &NttPlan, rows: &NttRows<'_>, _: &JobControl) -> Result<ExecutedBy> {
        let mut piece = vec![0; NTT_PIECE];
        let total = rows.input.spec.bytes() as usize;
        for start in (0..total).step_by(NTT_PIECE) {
            let piece = &mut piece[..NTT_PIECE.min(total - start)];
            rows.input.source.read(start as u64, piece);
            rows.output.write(start as u64, piece)?;
        }
        Ok(ExecutedBy::default())
    }

    fn ntt31(
        &self,
        _: Field31,
        _: &NttPlan<Element31>,
        _: &mut [Vec<Element31>],
        _: &JobControl,
    ) -> Result<ExecutedBy> {
        Ok(ExecutedBy::default())
    }
}

struct IdleRun {
    group: Group,
    batch: usize,
    taken: Vec<u8>,
}

impl MsmRun for IdleRun {
    /// Copies the scalars out of the upload, as every engine must.
    fn absorb(
        &mut self,
        _: usize,
        _: usize,
        given: &EncodedScalars<'_>,
        _: &JobControl,
    ) -> Result<()> {
        self.taken.resize(given.spec.bytes() as usize, 0);
        given.source.read(0, &mut self.taken);
        Ok(())
    }

    fn finish(&mut self) -> Result<ComputedMsm> {
        let sums = match self.group {
            Group::G1 => MsmSums::G1(vec![G1Projective::zero(); self.batch]),
            Group::G2 => MsmSums::G2(vec![G2Projective::zero(); self.batch]),
        };
        Ok(ComputedMsm { sums, executor: ExecutedBy::default() })
    }
}

/// `n` points at infinity: bases that cost nothing to check.
pub fn infinities(n: usize) -> Vec<G1Affine> {
    vec![G1Affine::zero(); n]
}

/// The value of the argument `name=value`.
pub fn argument_text(name: &str) -> Option<String> {
    let prefix = format!("{name}=");
    std::env::args().find_map(|argument| argument.strip_prefix(&prefix).map(str::to_owned))
}

/// The number of the argument `name=number`, or `default`.
pub fn argument(name: &str, default: u64) -> u64 {
    argument_text(name).map_or(default, |value| value.parse().expect("a whole number"))
}

/// Durations of repeated runs.
#[derive(Default, Clone)]
pub struct Samples(pub Vec<Duration>);

impl Samples {
    /// The quantile `share` of the samples.
    pub fn quantile(&self, share: f64) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        sorted[((sorted.len() - 1) as f64 * share).round() as usize]
    }

    pub fn median(&self) -> Duration {
        self.quantile(0.5)
    }

    pub fn min(&self) -> Duration {
        self.quantile(0.0)
    }
}

/// Median of the ratios of paired samples, which were taken one right after the other.
pub fn ratio(this: &Samples, that: &Samples) -> f64 {
    let pairs = this.0.iter().zip(&that.0);
    let mut ratios: Vec<f64> =
        pairs.map(|(this, that)| this.as_secs_f64() / that.as_secs_f64()).collect();
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}

/// GB/s.
pub fn rate(bytes: u64, time: Duration) -> f64 {
    bytes as f64 / 1e9 / time.as_secs_f64()
}

/// A field of `/proc/PID/status`, in its unit (KiB for memory).
pub fn proc_status(pid: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).expect("a number")
}

/// CPU time of all threads of this process. Other load affects it far less than wall time.
pub fn cpu_time() -> Duration {
    let tasks = fs::read_dir("/proc/self/task").expect("Linux").flatten();
    let used = tasks.filter_map(|task| {
        let statistics = fs::read_to_string(task.path().join("schedstat")).ok()?;
        statistics.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(used.sum())
}
