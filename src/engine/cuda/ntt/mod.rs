//! NTTs of a job's rows on one GPU. Rows are processed in groups: one group is transformed while
//! the next is uploaded and the previous one downloaded.

mod job;
mod padded_rows;

use std::sync::{Mutex, PoisonError};

use tracing::{debug, debug_span, field, field::Empty};

use self::job::GpuNttJob;
use super::{msm::GpuMsm, payload_copy::PayloadCopier, scalar_codec::ScalarCodec};
use crate::{
    device::{DeviceFault, DeviceLease, DeviceSlice, Gpu, GpuUnavailable, Stream},
    engine::{ExecutedBy, JobControl, NttPlan, NttRows, record_stages},
    error::{Error, Result},
    ntt::{
        DeviceFr, EvaluationTables, NttDevice, NttPassPlan, NttTransform, TransformEnd,
        table_bytes_max,
    },
};

/// Short rows are grouped up to this many bytes: 160 us of a 50 GB/s link, which outweigh launches
/// and waits (about 10 us), but few enough that a batch has many groups.
const GROUP_BYTES: usize = 8 << 20;

/// Groups under way: one uploading, one being transformed, one downloading.
const GROUPS_IN_FLIGHT_MAX: usize = 3;

/// A job's groups other than the first take at most this fraction of the arena, 1/8: overlap gains
/// less than other jobs would lose without memory.
const AHEAD_PART: u64 = 8;

/// NTTs on one GPU, for any number of concurrent jobs.
pub struct GpuNtt {
    gpu: Gpu,
    transforms: NttDevice,
    /// Evicts bases or the workspace if a transform needs memory.
    computer: GpuMsm,
    elements: ScalarCodec,
    copier: PayloadCopier,
    /// Idle streams.
    idle: Mutex<Vec<NttStreams>>,
}

/// The streams of one job.
#[derive(Clone)]
struct NttStreams {
    upload: Stream,
    compute: Stream,
    download: Stream,
}

/// A job's streams, returned to `idle` on drop. Tables keep track of the streams that used them, so
/// fewer streams are better.
struct StreamsGuard<'a> {
    idle: &'a Mutex<Vec<NttStreams>>,
    streams: NttStreams,
}

/// Device memory of one group.
struct GroupBuffers {
    data: DeviceLease,
    /// A word that identifies the first refused element.
    refused_word: DeviceLease,
    /// Memory of the result, if the transform cannot be in place.
    out: Option<DeviceLease>,
}

impl GpuNtt {
    /// Loads the kernels. `copier` fills and empties pinned memory.
    pub fn load(
        gpu: &Gpu,
        computer: &GpuMsm,
        copier: PayloadCopier,
    ) -> Result<Self, GpuUnavailable> {
        Ok(Self {
            gpu: gpu.clone(),
            transforms: NttDevice::load(gpu, table_bytes_max(gpu.arena().bytes()))?,
            computer: computer.clone(),
            elements: ScalarCodec::load(gpu)?,
            copier,
            idle: Mutex::default(),
        })
    }

    /// Transforms rows and returns the executor. `None` if the device has no memory for them; then
    /// nothing has been written.
    ///
    /// Shape: `plan.lg_n` is at most [`crate::ntt::LG_N_MAX`]; elements of 32 bytes.
    /// Errors: those of [`crate::engine::Engine::ntt`]; `Exhausted` if the driver has no memory;
    /// `DeviceLost`.
    pub fn run(
        &self,
        plan: &NttPlan,
        rows: &NttRows<'_>,
        control: &JobControl,
    ) -> Result<Option<ExecutedBy>> {
        self.run_planned_for(group_rows(plan.lg_n, rows.count), plan, rows, control)
    }

    /// Like [`GpuNtt::run`], with the passes that are best for groups of `planned` rows.
    pub fn run_planned_for(
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
        if !rows.input.encoding.is_full() || rows.row_length > 1 << plan.lg_n {
            return Err(Error::Internal("the rows do not match the plan".into()));
        }
        let group = group_rows(plan.lg_n, rows.count);
        let groups = rows.count.div_ceil(group);
        let Some(plan) = self.plan(plan, planned)? else { return Ok(None) };
        let lane = self.take_streams()?;
        let slots = self.lease_groups(&lane.streams, (group * row_bytes) as u64, groups, &plan)?;
        if slots.is_empty() {
            return Ok(None);
        }
        span.record("group", group).record("slots", slots.len());
        span.record("plan", field::display(&plan));
        debug!(rows = rows.count, group, slots = slots.len(), %plan, "NTT on the device");
        let device = format!("{}, {plan}", self.gpu.identity().name);
        let evaluations = if rows.check_on_device { self.evaluations(&plan)? } else { None };
        let checked = evaluations.is_some();
        let job = GpuNttJob::new(self, rows, plan, evaluations, lane, control);
        let done = job.run(group, slots);
        if done == Err(Error::Corrupt) {
            // A corrupt table would spoil every transform until it is recomputed.
            self.transforms.evict_tables();
        }
        done?;
        let stages = job.stages();
        record_stages(&span, &stages);
        Ok(Some(ExecutedBy { engine: super::ENGINE, device, stages, checked_on_device: checked }))
    }

    /// Frees the tables that no job uses.
    pub fn forget_tables(&self) {
        self.transforms.evict_tables();
    }

    /// A plan for groups of `rows` rows, with its tables; `None` if there is no memory for them.
    fn plan(&self, plan: &NttPlan, rows: usize) -> Result<Option<NttPassPlan>> {
        let &NttPlan { lg_n, inverse, coset, input_reversed, output_reversed } = plan;
        let transform = NttTransform { lg_n, inverse, coset, input_reversed, output_reversed };
        loop {
            match self.transforms.plan(&transform, rows) {
                Err(Error::Exhausted { .. }) if self.computer.evict_idle() => {}
                Err(Error::Exhausted { .. }) => return Ok(None),
                done => return done.map(Some),
            }
        }
    }

    /// The evaluations that check results; `None` if there is no memory for their tables.
    fn evaluations(&self, plan: &NttPassPlan) -> Result<Option<[EvaluationTables; 2]>> {
        let of = |end| self.transforms.evaluation_tables(plan.transform(), end);
        loop {
            match of(TransformEnd::Input).and_then(|input| Ok([input, of(TransformEnd::Output)?])) {
                Err(Error::Exhausted { .. }) if self.computer.evict_idle() => {}
                Err(Error::Exhausted { .. }) => return Ok(None),
                done => return done.map(Some),
            }
        }
    }

    fn take_streams(&self) -> Result<StreamsGuard<'_>, DeviceFault> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let streams = match idle {
            Some(streams) => streams,
            None => NttStreams::new(&self.gpu)?,
        };
        Ok(StreamsGuard { idle: &self.idle, streams })
    }

    /// Memory for at most `groups` groups of `bytes` each; empty if not even one fits.
    fn lease_groups(
        &self,
        streams: &NttStreams,
        bytes: u64,
        groups: usize,
        plan: &NttPassPlan,
    ) -> Result<Vec<GroupBuffers>> {
        let arena = self.gpu.arena().bytes();
        let leases = if plan.needs_output_buffer() { 2 } else { 1 };
        let mut slots = Vec::new();
        if leases * bytes > arena {
            return Ok(slots);
        }
        let ahead =
            (arena / AHEAD_PART / (leases * bytes)).min(GROUPS_IN_FLIGHT_MAX as u64 - 1) as usize;
        while slots.len() < groups.min(1 + ahead) {
            let first = slots.is_empty();
            let Some(data) = self.lease(&streams.upload, bytes, first)? else { break };
            let mut out = None;
            if plan.needs_output_buffer() {
                out = self.lease(&streams.compute, bytes, first)?;
                if out.is_none() {
                    break;
                }
            }
            let Some(refused) = self.lease(&streams.compute, 8, first)? else { break };
            slots.push(GroupBuffers { data, refused_word: refused, out });
        }
        Ok(slots)
    }

    /// Leases memory if it is free; if it `must` be had, evicts as needed.
    fn lease(&self, stream: &Stream, bytes: u64, must: bool) -> Result<Option<DeviceLease>> {
        let arena = self.gpu.arena();
        // Checked first, because a refused lease is reported as a fault of the device.
        while arena.largest_free_bytes() < bytes {
            if !must || !self.computer.evict_idle_for(bytes) {
                return Ok(None);
            }
        }
        match arena.lease(stream, bytes) {
            Err(DeviceFault::OutOfMemory { .. }) => Ok(None),
            done => Ok(Some(done?)),
        }
    }
}

/// The rows of 2^lg_n elements per group, if a job has `rows` rows.
pub fn group_rows(lg_n: u32, rows: usize) -> usize {
    (GROUP_BYTES / (size_of::<DeviceFr>() << lg_n)).clamp(1, rows.max(1))
}

impl NttStreams {
    fn new(gpu: &Gpu) -> Result<Self, DeviceFault> {
        let stream = || Stream::new(gpu.context());
        Ok(Self { upload: stream()?, compute: stream()?, download: stream()? })
    }
}

impl Drop for StreamsGuard<'_> {
    fn drop(&mut self) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(self.streams.clone());
    }
}

impl GroupBuffers {
    fn data(&self, elements: usize) -> Result<DeviceSlice<'_, DeviceFr>> {
        self.data.all().slice(0, elements).ok_or_else(too_small)
    }

    fn out(&self, elements: usize) -> Result<Option<DeviceSlice<'_, DeviceFr>>> {
        let Some(out) = &self.out else { return Ok(None) };
        out.all().slice(0, elements).ok_or_else(too_small).map(Some)
    }
}

fn too_small() -> Error {
    Error::Internal("a group exceeds its memory".into())
}
