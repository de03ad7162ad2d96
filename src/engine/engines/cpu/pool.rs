//! A thread pool, and what both CPU engines do on it.

use std::sync::Arc;

use rayon::{ThreadPool, ThreadPoolBuilder};

use super::{long_ntt::LongTransform, ntt, ntt31};
use crate::{
    curve::{Decimation, Fr, Group},
    engines::{DeviceInfo, ExecutedBy, JobControl, NttPlan, NttRows},
    error::{Error, Result},
    field::{Element31, Field31, FieldId},
};

/// Scalars in one piece of a long MSM: in pieces of a quarter, a scalar takes 9 % longer
/// (`benches/experiments/cpu-engine.md`).
pub(super) const fn msm_piece_len(group: Group) -> usize {
    match group {
        Group::G1 => 1 << 20,
        Group::G2 => 1 << 19,
    }
}

#[derive(Clone)]
pub(super) struct EnginePool {
    engine: &'static str,
    pub threads: Arc<ThreadPool>,
    /// How long rows are transformed.
    long_ntt: LongTransform,
}

impl EnginePool {
    /// A pool of `threads` threads named `thread_name`; 0 means one per core.
    pub fn new(
        engine: &'static str,
        thread_name: &'static str,
        threads: usize,
        long_ntt: LongTransform,
    ) -> Result<Self> {
        let threads = ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(move |i| format!("{thread_name}-{i}"))
            .build()
            .map_err(|error| Error::Internal(format!("thread pool: {error}")))?;
        Ok(Self { engine, threads: Arc::new(threads), long_ntt })
    }

    pub fn description(&self) -> DeviceInfo {
        let threads = self.threads.current_num_threads();
        DeviceInfo {
            name: format!("{threads} threads"),
            kind: self.engine,
            units: threads as u32,
            memory_bytes: memory_bytes(),
            gpu: None,
        }
    }

    pub fn executor(&self, library: &str) -> ExecutedBy {
        let device = format!("{} threads, {library}", self.threads.current_num_threads());
        let stages = Vec::new();
        ExecutedBy { engine: self.engine, device, stages, checked_on_device: false }
    }

    pub fn ntt(
        &self,
        plan: &NttPlan,
        rows: &NttRows<'_>,
        control: &JobControl,
    ) -> Result<ExecutedBy> {
        let transform = |rows: &mut [Vec<Fr>]| ntt::transform(plan, rows, self.long_ntt, control);
        self.threads.install(|| rows.transform_decoded(plan.lg_n, control, transform))?;
        Ok(self.executor("arkworks"))
    }

    pub fn ntt_in_place(
        &self,
        plan: &NttPlan,
        rows: &mut [Vec<Fr>],
        control: &JobControl,
    ) -> Result<ExecutedBy> {
        self.threads.install(|| ntt::transform(plan, rows, self.long_ntt, control))?;
        Ok(self.executor("arkworks"))
    }

    pub fn ntt31(
        &self,
        field: Field31,
        plan: &NttPlan<Element31>,
        rows: &mut [Vec<Element31>],
        decimation: Decimation,
        control: &JobControl,
    ) -> Result<ExecutedBy> {
        self.threads.install(|| ntt31::transform(field, plan, rows, decimation, control))?;
        Ok(self.executor("ntt31"))
    }

    pub fn ntt_scratch_bytes(&self, field: FieldId, lg_n: u32) -> u64 {
        let threads = self.threads.current_num_threads();
        match field {
            FieldId::Bls12381Fr => ntt::scratch_bytes(lg_n, threads),
            FieldId::Prime31(_) => ntt31::scratch_bytes(lg_n, threads),
            FieldId::Gf2 | FieldId::Integers => 0,
        }
    }
}

/// Bytes of the host's memory; 0 if the system does not report it.
fn memory_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|total| total.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
