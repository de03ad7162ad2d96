//! Transforms of a job's rows on one GPU. Rows go there and come back in groups: while one is
//! transformed, the next is on its way there, and the one before on its way back.

mod job;
mod padded;

use std::sync::{Mutex, PoisonError};

use tracing::{debug, debug_span, field, field::Empty};

use self::job::Job;
use super::{copy::Copier, elements::Elements, msm::Computer};
use crate::{
    device::{Fault, Gpu, Lease, Span, Stream, Unusable},
    engine::{Control, Executor, NttPlan, Rows, record_stages},
    error::{Error, Result},
    ntt::{Element, End, Evaluation, Plan, Transform, Transforms, table_bytes_max},
};

/// Short rows go together, as one launch: 160 us of a link of 50 GB/s, beside which launches and
/// waits (some 10 us) do not count, and little enough that a batch has many.
const GROUP_BYTES: usize = 8 << 20;

/// Groups under way: one goes, one is transformed, one comes back.
const GROUPS: usize = 3;

/// All groups of a job but its first take at most one part of so many of the arena: what they gain
/// is not worth that other jobs find no room.
const AHEAD_PART: u64 = 8;

/// Transforms on one GPU, for any number of jobs at a time.
pub struct Transformer {
    gpu: Gpu,
    transforms: Transforms,
    /// Holds what may leave the device if a transform needs the room.
    computer: Computer,
    elements: Elements,
    copier: Copier,
    /// Streams that no job uses now.
    idle: Mutex<Vec<Streams>>,
}

/// What one job's copies and kernels run on.
#[derive(Clone)]
struct Streams {
    upload: Stream,
    compute: Stream,
    download: Stream,
}

/// Streams that go back when the job ends, in whichever way: tables remember who used them, so the
/// fewer there ever are the better.
struct Lane<'a> {
    idle: &'a Mutex<Vec<Streams>>,
    streams: Streams,
}

/// Device memory of one group.
struct Slot {
    data: Lease,
    /// A word that says which element is refused.
    refused: Lease,
    /// Where the result goes, if it cannot be in place.
    out: Option<Lease>,
}

impl Transformer {
    /// Loads the kernels. `copier` fills and empties pinned memory.
    pub fn load(gpu: &Gpu, computer: &Computer, copier: Copier) -> Result<Self, Unusable> {
        Ok(Self {
            gpu: gpu.clone(),
            transforms: Transforms::load(gpu, table_bytes_max(gpu.arena().bytes()))?,
            computer: computer.clone(),
            elements: Elements::load(gpu)?,
            copier,
            idle: Mutex::default(),
        })
    }

    /// Transforms rows, and says who did. `None` where the device has no room: nothing is written
    /// then.
    ///
    /// Shape: `plan.lg_n` is at most [`crate::ntt::LG_N_MAX`]; elements of 32 bytes.
    /// Errors: as [`crate::engine::Engine::ntt`]; `Exhausted` where the driver has no memory left;
    /// `DeviceLost`.
    pub fn run(
        &self,
        plan: &NttPlan,
        rows: &Rows<'_>,
        control: &Control,
    ) -> Result<Option<Executor>> {
        self.run_planned_for(group_rows(plan.lg_n, rows.count), plan, rows, control)
    }

    /// Like [`Transformer::run`], by the passes that are best for groups of `planned` rows.
    pub fn run_planned_for(
        &self,
        planned: usize,
        plan: &NttPlan,
        rows: &Rows<'_>,
        control: &Control,
    ) -> Result<Option<Executor>> {
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
        let row_bytes = size_of::<Element>() << plan.lg_n;
        if !rows.input.encoding.is_full() || rows.row_length > 1 << plan.lg_n {
            return Err(Error::Internal("rows are not as the plan says".into()));
        }
        let group = group_rows(plan.lg_n, rows.count);
        let groups = rows.count.div_ceil(group);
        let Some(plan) = self.plan(plan, planned)? else { return Ok(None) };
        let lane = self.lane()?;
        let slots = self.slots(&lane.streams, (group * row_bytes) as u64, groups, &plan)?;
        if slots.is_empty() {
            return Ok(None);
        }
        span.record("group", group).record("slots", slots.len());
        span.record("plan", field::display(&plan));
        debug!(rows = rows.count, group, slots = slots.len(), %plan, "NTT on the device");
        let device = format!("{}, {plan}", self.gpu.identity().name);
        let evaluations = if rows.check { self.evaluations(&plan)? } else { None };
        let checked = evaluations.is_some();
        let job = Job::new(self, rows, plan, evaluations, lane, control);
        let done = job.run(group, slots);
        if done == Err(Error::Corrupt) {
            // If it was a table, it would spoil every transform until it is made anew.
            self.transforms.forget_tables();
        }
        done?;
        let stages = job.stages();
        record_stages(&span, &stages);
        Ok(Some(Executor { engine: super::ENGINE, device, stages, checked }))
    }

    /// Gives up the tables that no job uses now.
    pub fn forget_tables(&self) {
        self.transforms.forget_tables();
    }

    /// A plan for groups of `rows` rows, with its tables; `None` where these find no room.
    fn plan(&self, plan: &NttPlan, rows: usize) -> Result<Option<Plan>> {
        let &NttPlan { lg_n, inverse, coset, input_reversed, output_reversed } = plan;
        let transform = Transform { lg_n, inverse, coset, input_reversed, output_reversed };
        loop {
            match self.transforms.plan(&transform, rows) {
                Err(Error::Exhausted { .. }) if self.computer.make_room() => {}
                Err(Error::Exhausted { .. }) => return Ok(None),
                done => return done.map(Some),
            }
        }
    }

    /// What a check of the plan's results takes; `None` where its tables find no room.
    fn evaluations(&self, plan: &Plan) -> Result<Option<[Evaluation; 2]>> {
        let of = |end| self.transforms.evaluation(plan.transform(), end);
        match of(End::Input).and_then(|input| Ok([input, of(End::Output)?])) {
            Err(Error::Exhausted { .. }) => Ok(None),
            done => done.map(Some),
        }
    }

    fn lane(&self) -> Result<Lane<'_>, Fault> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let streams = match idle {
            Some(streams) => streams,
            None => Streams::new(&self.gpu)?,
        };
        Ok(Lane { idle: &self.idle, streams })
    }

    /// Memory for some of `groups` groups of `bytes` each; none where there is no room for one.
    fn slots(
        &self,
        streams: &Streams,
        bytes: u64,
        groups: usize,
        plan: &Plan,
    ) -> Result<Vec<Slot>> {
        let arena = self.gpu.arena().bytes();
        let leases = if plan.needs_out() { 2 } else { 1 };
        let mut slots = Vec::new();
        if leases * bytes > arena {
            return Ok(slots);
        }
        let ahead = (arena / AHEAD_PART / (leases * bytes)).min(GROUPS as u64 - 1) as usize;
        while slots.len() < groups.min(1 + ahead) {
            let first = slots.is_empty();
            let Some(data) = self.lease(&streams.upload, bytes, first)? else { break };
            let mut out = None;
            if plan.needs_out() {
                out = self.lease(&streams.compute, bytes, first)?;
                if out.is_none() {
                    break;
                }
            }
            let Some(refused) = self.lease(&streams.compute, 8, first)? else { break };
            slots.push(Slot { data, refused, out });
        }
        Ok(slots)
    }

    /// Memory, if there is some; where it `must` be, others may have to leave.
    fn lease(&self, stream: &Stream, bytes: u64, must: bool) -> Result<Option<Lease>> {
        let arena = self.gpu.arena();
        // Asked first: a refused lease counts as a fault of the device.
        while arena.largest_free_bytes() < bytes {
            if !must || !self.computer.make_room_for(bytes) {
                return Ok(None);
            }
        }
        match arena.lease(stream, bytes) {
            Err(Fault::Full { .. }) => Ok(None),
            done => Ok(Some(done?)),
        }
    }
}

/// Rows of 2^lg_n that go together, of so many.
pub fn group_rows(lg_n: u32, rows: usize) -> usize {
    (GROUP_BYTES / (size_of::<Element>() << lg_n)).clamp(1, rows.max(1))
}

impl Streams {
    fn new(gpu: &Gpu) -> Result<Self, Fault> {
        let stream = || Stream::new(gpu.context());
        Ok(Self { upload: stream()?, compute: stream()?, download: stream()? })
    }
}

impl Drop for Lane<'_> {
    fn drop(&mut self) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(self.streams.clone());
    }
}

impl Slot {
    fn data(&self, elements: usize) -> Result<Span<'_, Element>> {
        self.data.all().part(0, elements).ok_or_else(too_small)
    }

    fn out(&self, elements: usize) -> Result<Option<Span<'_, Element>>> {
        let Some(out) = &self.out else { return Ok(None) };
        out.all().part(0, elements).ok_or_else(too_small).map(Some)
    }
}

fn too_small() -> Error {
    Error::Internal("a group is larger than its memory".into())
}
