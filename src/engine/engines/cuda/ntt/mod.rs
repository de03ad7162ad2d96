//! NTTs of a job's rows on one GPU. Rows are processed in groups: one group is transformed while
//! the next is uploaded and the previous one downloaded.
//!
//! An NTT that does not fit on a GPU runs on the CPU, after idle bases were evicted. Its rows are
//! not touched until there is memory for all of it, so its scratch memory is estimated as the
//! CPU's.

mod group_memory;
mod job;

use std::sync::Arc;

use tracing::{debug, debug_span, field, field::Empty};

use self::{
    group_memory::{GroupBuffers, NttStreams},
    job::{GpuNttJob, NttResources},
};
use super::{
    GpuPolicy, msm::GpuMsm, payload_copy::PayloadCopier, policy::ENGINE, scalar_codec::ScalarCodec,
};
use crate::{
    device::{DeviceFault, DeviceLease, Gpu, GpuUnavailable, Stream},
    engines::{ExecutedBy, JobControl, NttPlan, NttRows, record_stages},
    error::{Error, Result},
    ntt::{DeviceFr, EvaluationTables, NttDevice, NttPassPlan, TransformEnd, table_bytes_max},
};

pub use self::group_memory::group_rows;

/// Groups under way: one uploading, one being transformed, one downloading.
const GROUPS_IN_FLIGHT_MAX: usize = 3;

/// A job's groups other than the first take at most this fraction of the arena, 1/8: overlap gains
/// less than other jobs would lose without memory.
const AHEAD_PART: u64 = 8;

pub struct GpuNtt {
    resources: NttResources,
    /// Evicts bases or the workspaces if a transform needs memory.
    gpu_msm: GpuMsm,
    policy: Arc<GpuPolicy>,
}

impl GpuNtt {
    pub fn load(
        gpu: &Gpu,
        gpu_msm: &GpuMsm,
        copier: PayloadCopier,
        policy: Arc<GpuPolicy>,
    ) -> Result<Self, GpuUnavailable> {
        let resources = NttResources {
            gpu: gpu.clone(),
            transforms: NttDevice::load(gpu, table_bytes_max(gpu.arena().bytes()))?,
            codec: ScalarCodec::load(gpu)?,
            copier,
        };
        let gpu_msm = gpu_msm.clone();
        Ok(Self { resources, gpu_msm, policy })
    }

    /// Transforms rows, with the passes that are best for groups of `planned` rows, and returns the
    /// executor. `None` if the device has no memory for them; then nothing has been written.
    ///
    /// Shape: `plan.lg_n` is at most [`crate::ntt::LG_N_MAX`]; elements of 32 bytes.
    /// Errors: those of [`crate::engines::MsmNttEngine::ntt`]; `Exhausted` if the driver has no
    /// memory; `DeviceLost`.
    pub fn run(
        &self,
        planned: usize,
        plan: &NttPlan,
        rows: &NttRows<'_>,
        control: &JobControl,
    ) -> Result<Option<ExecutedBy>> {
        let span = debug_span!(
            "ntt",
            lg_n = plan.lg_n,
            rows = rows.count,
            inverse = plan.inverse,
            coset = plan.coset.is_some(),
            group = Empty,
            slots = Empty,
            plan = Empty,
            transform_us = Empty,
            check_us = Empty,
        )
        .entered();
        let row_bytes = size_of::<DeviceFr>() << plan.lg_n;
        if !rows.input.spec.encoding.is_full() || rows.row_length > 1 << plan.lg_n {
            return Err(Error::Internal("the rows do not match the plan".into()));
        }
        let group = group_rows(plan.lg_n, rows.count);
        let groups = rows.count.div_ceil(group);
        let Some(plan) = self.plan(plan, planned)? else { return Ok(None) };
        let streams = NttStreams::take(&self.resources.gpu)?;
        let slots = self.lease_groups(&streams, (group * row_bytes) as u64, groups, &plan)?;
        if slots.is_empty() {
            return Ok(None);
        }
        span.record("group", group).record("slots", slots.len());
        span.record("plan", field::display(&plan));
        debug!(rows = rows.count, group, slots = slots.len(), %plan, "NTT on the device");
        let device = format!("{}, {plan}", self.resources.gpu.identity().name);
        let evaluations = if rows.check_on_device { self.evaluations(&plan)? } else { None };
        let checked_on_device = evaluations.is_some();
        let control = control.behind(&self.policy.cancellation_gate);
        let job = GpuNttJob::new(&self.resources, rows, plan, evaluations, streams, control);
        let done = job.run(group, slots);
        if done == Err(Error::Corrupt) {
            // A corrupt table would spoil every transform until it is recomputed.
            self.evict_tables();
        }
        done?;
        let stages = job.stages();
        record_stages(&span, &stages);
        Ok(Some(ExecutedBy { engine: ENGINE, device, stages, checked_on_device }))
    }

    pub fn transforms(&self) -> &NttDevice {
        &self.resources.transforms
    }

    /// A plan for `rows` rows, with its tables; `None` if there is no memory for them.
    pub fn plan(&self, plan: &NttPlan, rows: usize) -> Result<Option<NttPassPlan>> {
        self.if_memory_suffices(|transforms| Ok(transforms.plan(plan, rows)?))
    }

    /// Frees the tables that no job uses.
    pub fn evict_tables(&self) {
        self.resources.transforms.evict_tables();
    }

    /// The evaluations that check results; `None` if there is no memory for their tables.
    fn evaluations(&self, plan: &NttPassPlan) -> Result<Option<[EvaluationTables; 2]>> {
        self.if_memory_suffices(|transforms| {
            let tables = |end| transforms.evaluation_tables(plan.transform(), end);
            Ok([tables(TransformEnd::Input)?, tables(TransformEnd::Output)?])
        })
    }

    /// Makes tables, evicting as needed; `None` if there is no memory for them.
    fn if_memory_suffices<T>(
        &self,
        make_tables: impl Fn(&NttDevice) -> Result<T>,
    ) -> Result<Option<T>> {
        loop {
            match make_tables(&self.resources.transforms) {
                Err(Error::Exhausted { .. }) if self.gpu_msm.resident().evict_idle() => {}
                Err(Error::Exhausted { .. }) => return Ok(None),
                made => return made.map(Some),
            }
        }
    }

    /// Memory for at most `groups` groups of `bytes` each; empty if not even one fits.
    fn lease_groups(
        &self,
        streams: &NttStreams,
        bytes: u64,
        groups: usize,
        plan: &NttPassPlan,
    ) -> Result<Vec<GroupBuffers>> {
        let arena = self.resources.gpu.arena().bytes();
        let leases = 1 + u64::from(plan.needs_output_buffer());
        let mut slots = Vec::new();
        if leases * bytes > arena {
            return Ok(slots);
        }
        let ahead =
            (arena / AHEAD_PART / (leases * bytes)).min(GROUPS_IN_FLIGHT_MAX as u64 - 1) as usize;
        while slots.len() < groups.min(1 + ahead) {
            let is_first = slots.is_empty();
            let Some(data) = self.lease(&streams.upload, bytes, is_first)? else { break };
            let mut out = None;
            if plan.needs_output_buffer() {
                out = self.lease(&streams.compute, bytes, is_first)?;
                if out.is_none() {
                    break;
                }
            }
            let Some(refused_word) = self.lease(&streams.compute, 8, is_first)? else { break };
            slots.push(GroupBuffers { data, refused_word, out });
        }
        Ok(slots)
    }

    /// Leases memory if it is free, or if it `may_evict` and can free it.
    fn lease(&self, stream: &Stream, bytes: u64, may_evict: bool) -> Result<Option<DeviceLease>> {
        let arena = self.resources.gpu.arena();
        // Checked first, because a refused lease is reported as a fault of the device.
        while arena.largest_free_bytes() < bytes {
            if !may_evict || !self.gpu_msm.resident().evict_idle_for(bytes) {
                return Ok(None);
            }
        }
        match arena.lease(stream, bytes) {
            Err(DeviceFault::OutOfMemory { .. }) => Ok(None),
            done => Ok(Some(done?)),
        }
    }
}
