//! CPU engines: [`CpuEngine`] serves, [`ArkworksEngine`] checks.

mod arkworks;
mod blst;
mod msm;
mod msm_plan;
mod ntt;

use std::sync::Arc;

use rayon::{ThreadPool, ThreadPoolBuilder};

pub use self::arkworks::ArkworksEngine;
use super::{Engine, EngineDescription, ExecutedBy, JobControl, MsmRun, NttPlan, NttRows};
use crate::{
    curve::{Fr, Group, points::Bases},
    error::{Error, Result},
};

const ENGINE: &str = "cpu";

/// MSM by blst's inner loop and NTT by arkworks, both on its own pool.
///
/// On the same pool, blst takes 0.69 to 0.85 of the thread time of arkworks' MSM in G1 and 0.66 to
/// 0.69 in G2, at every size measured.
pub struct CpuEngine {
    pool: Arc<ThreadPool>,
}

impl CpuEngine {
    /// An engine of `threads` threads; 0 means one per core.
    ///
    /// Errors: `Internal` if the threads cannot be created.
    pub fn new(threads: usize) -> Result<Self> {
        Ok(Self { pool: pool("capstan-cpu", threads)? })
    }

    /// The pool, for other engines' work on the host.
    #[cfg(feature = "cuda")]
    pub(super) fn pool(&self) -> &Arc<ThreadPool> {
        &self.pool
    }
}

impl Engine for CpuEngine {
    fn description(&self) -> EngineDescription {
        describe(ENGINE, &self.pool)
    }

    fn msm(&self, bases: Bases, batch: usize) -> Result<Box<dyn MsmRun>> {
        let pool = self.pool.clone();
        Ok(match bases {
            Bases::G1(bases) => Box::new(msm::BlstMsmRun::new(pool, bases, batch)),
            Bases::G2(bases) => Box::new(msm::BlstMsmRun::new(pool, bases, batch)),
        })
    }

    fn msm_piece_len(&self, group: Group, n: usize) -> usize {
        n.min(piece_len(group))
    }

    fn ntt(&self, plan: &NttPlan, rows: &NttRows<'_>, control: &JobControl) -> Result<ExecutedBy> {
        let transform = |rows: &mut [Vec<Fr>]| ntt::transform(plan, rows, control);
        self.pool.install(|| rows.transform_decoded(plan.lg_n, transform))?;
        Ok(executor(ENGINE, &self.pool, "arkworks"))
    }

    fn ntt_in_place(
        &self,
        plan: &NttPlan,
        rows: &mut [Vec<Fr>],
        control: &JobControl,
    ) -> Result<ExecutedBy> {
        self.pool.install(|| ntt::transform(plan, rows, control))?;
        Ok(executor(ENGINE, &self.pool, "arkworks"))
    }

    fn msm_scratch_bytes(&self, group: Group, n: usize) -> u64 {
        msm::scratch_bytes(group, self.msm_piece_len(group, n), self.pool.current_num_threads())
    }

    fn ntt_scratch_bytes(&self, plan: &NttPlan) -> u64 {
        ntt::scratch_bytes(plan, self.pool.current_num_threads())
    }
}

/// Scalars in one piece of a long MSM. In G1 on a 2.6 GHz Xeon, pieces of 2^18 take 9 % and pieces
/// of 2^16 take 14 % more thread time per scalar than pieces of 2^20.
const fn piece_len(group: Group) -> usize {
    match group {
        Group::G1 => 1 << 20,
        Group::G2 => 1 << 19,
    }
}

fn pool(name: &'static str, threads: usize) -> Result<Arc<ThreadPool>> {
    ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(move |i| format!("{name}-{i}"))
        .build()
        .map(Arc::new)
        .map_err(|error| Error::Internal(format!("thread pool: {error}")))
}

/// The executor of a result computed with `library`.
fn executor(engine: &'static str, pool: &ThreadPool, library: &str) -> ExecutedBy {
    let device = format!("{} threads, {library}", pool.current_num_threads());
    ExecutedBy { engine, device, stages: Vec::new(), checked_on_device: false }
}

fn describe(name: &'static str, pool: &ThreadPool) -> EngineDescription {
    let threads = pool.current_num_threads();
    EngineDescription {
        name,
        device: format!("{threads} threads"),
        units: threads as u32,
        memory_bytes: memory_bytes(),
    }
}

/// Bytes of the host's memory; 0 if the system does not report it.
fn memory_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|total| total.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
