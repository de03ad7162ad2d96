//! Transforms of a job's rows on one GPU. Rows go there and come back in groups: while one is
//! transformed, the next is on its way there, and the one before on its way back.

use std::{
    ops::Range,
    panic,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use tracing::debug;

use super::{
    copy::Copier,
    elements::{Elements, Into, first_bad},
    msm::Computer,
};
use crate::{
    buffer::Source,
    curve::scalars::ScalarEncoding,
    device::{Copies, Event, Fault, Gpu, Lease, Span, Stream, Unusable},
    engine::{Control, Executor, NttPlan, Rows},
    error::{Error, Problem, Result},
    ntt::{Element, Plan, Transform, Transforms},
};

/// Tables of factors that are kept take one part of so many of the arena: 15 GiB on an H200, a
/// quarter of which are those of 2^26 as a whole.
const TABLES_PART: u64 = 8;

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

/// A job that has all it needs on the device.
struct Job<'a> {
    on: &'a Transformer,
    control: &'a Control,
    plan: Plan,
    rows: &'a Rows<'a>,
    lane: Lane<'a>,
    copies: Copies,
    /// Nanoseconds that the device took for all groups, without copies.
    transform_ns: AtomicU64,
}

/// Rows of which each is filled up with zeros.
struct Padded<'a> {
    source: &'a dyn Source,
    /// Bytes of a row as it comes, and in the end.
    given: u64,
    full: u64,
}

/// A group that is being transformed: its rows, by number.
struct Sent {
    rows: Range<usize>,
    slot: Slot,
    begun: Event,
    done: Event,
}

impl Transformer {
    /// Loads the kernels. `copier` fills and empties pinned memory.
    pub fn load(gpu: &Gpu, computer: &Computer, copier: Copier) -> Result<Self, Unusable> {
        Ok(Self {
            gpu: gpu.clone(),
            transforms: Transforms::load(gpu, gpu.arena().bytes() / TABLES_PART)?,
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
        let row_bytes = size_of::<Element>() << plan.lg_n;
        if !rows.input.encoding.is_full() || rows.row_length > 1 << plan.lg_n {
            return Err(Error::Internal("rows are not as the plan says".into()));
        }
        let group = (GROUP_BYTES / row_bytes).clamp(1, rows.count.max(1));
        let groups = rows.count.div_ceil(group);
        let Some(plan) = self.plan(plan, group)? else { return Ok(None) };
        let lane = self.lane()?;
        let slots = self.slots(&lane.streams, (group * row_bytes) as u64, groups, &plan)?;
        if slots.is_empty() {
            return Ok(None);
        }
        debug!(rows = rows.count, group, slots = slots.len(), %plan, "NTT on the device");
        let device = format!("{}, {plan}", self.gpu.identity().name);
        let copies = self.gpu.ring().copies();
        let job = Job { on: self, control, plan, rows, lane, copies, transform_ns: 0.into() };
        job.run(group, slots)?;
        let transform = Duration::from_nanos(job.transform_ns.load(Ordering::Relaxed));
        let stages = vec![("transform", transform)];
        Ok(Some(Executor { engine: super::ENGINE, device, stages }))
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
            if !must || !self.computer.make_room() {
                return Ok(None);
            }
        }
        match arena.lease(stream, bytes) {
            Err(Fault::Full { .. }) => Ok(None),
            done => Ok(Some(done?)),
        }
    }
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

impl Source for Padded<'_> {
    fn read(&self, at: u64, out: &mut [u8]) {
        let mut done = 0;
        while done < out.len() {
            let at = at + done as u64;
            let (row, within) = (at / self.full, at % self.full);
            let (end, given) = match within < self.given {
                true => (self.given, true),
                false => (self.full, false),
            };
            let take = ((end - within) as usize).min(out.len() - done);
            let part = &mut out[done..done + take];
            if given {
                self.source.read(row * self.given + within, part);
            } else {
                part.fill(0);
            }
            done += take;
        }
    }
}

impl Job<'_> {
    fn run(&self, group: usize, mut slots: Vec<Slot>) -> Result<()> {
        let count = self.rows.count;
        let groups = (0..count).step_by(group).map(|first| first..(first + group).min(count));
        if slots.len() > 1 {
            return self.overlap(groups, slots);
        }
        let mut slot = slots.pop().ok_or_else(too_small)?;
        for rows in groups {
            slot = self.receive(self.send(rows, slot)?)?;
        }
        Ok(())
    }

    /// Sends groups from this thread and receives them on another one.
    fn overlap(
        &self,
        mut groups: impl Iterator<Item = Range<usize>>,
        slots: Vec<Slot>,
    ) -> Result<()> {
        let (give_back, free) = mpsc::channel();
        let (pass_on, under_way) = mpsc::channel();
        let receive = {
            let give_back = give_back.clone();
            move || {
                under_way.into_iter().try_for_each(|sent| {
                    // Nobody wants it where there are no more groups.
                    let _unwanted = give_back.send(self.receive(sent)?);
                    Ok(())
                })
            }
        };
        for slot in slots {
            give_back.send(slot).map_err(|_| too_small())?;
        }
        // From here on the other thread has the only one: without it there are no more slots.
        drop(give_back);
        thread::scope(|scope| {
            let name = "capstan-download".to_owned();
            let receiver = thread::Builder::new().name(name).spawn_scoped(scope, receive);
            let receiver =
                receiver.map_err(|error| Error::Internal(format!("no thread: {error}")))?;
            let sent = groups.try_for_each(|rows| {
                // Where the other thread has failed, its error is the job's.
                let Ok(slot) = free.recv() else { return Ok(()) };
                // As above.
                let _gone = pass_on.send(self.send(rows, slot)?);
                Ok(())
            });
            drop(pass_on);
            let received = receiver.join().unwrap_or_else(|cause| panic::resume_unwind(cause));
            sent.and(received)
        })
    }

    fn row_bytes(&self) -> u64 {
        (size_of::<Element>() as u64) << self.plan.transform().lg_n
    }

    /// Brings a group to the device and has it transformed. Returns when it is on its way.
    fn send(&self, rows: Range<usize>, slot: Slot) -> Result<Sent> {
        self.control.check()?;
        let [begun, done] = self.launch(&rows, &slot)?;
        Ok(Sent { rows, slot, begun, done })
    }

    /// Gives the points where the device begins and ends with the group, copies left out.
    fn launch(&self, rows: &Range<usize>, slot: &Slot) -> Result<[Event; 2]> {
        let Streams { upload: stream, compute, .. } = &self.lane.streams;
        let (input, full) = (&self.rows.input, self.row_bytes());
        let elements = rows.len() << self.plan.transform().lg_n;
        let data = slot.data(elements)?;
        let bytes = data.cast::<u8>().ok_or_else(too_small)?;
        let given = self.rows.row_length as u64 * 32;
        let source = Padded { source: input.source, given, full };
        let mut at = rows.start as u64 * full;
        let mut upload = self.copies.upload(stream, bytes);
        upload.fill(bytes.len(), |chunk| {
            self.control.check()?;
            self.on.copier.gather(&source, at, chunk);
            at += chunk.len() as u64;
            Ok::<_, Error>(())
        })?;
        compute.wait(&upload.sent()?)?;
        let begun = compute.record_timed()?;
        let how = (input.encoding, input.reduce, Into::Montgomery);
        let refused = (slot.refused.all(), (rows.start as u64) << self.plan.transform().lg_n);
        self.on.elements.decode(compute, how, bytes, bytes, refused)?;
        let out = slot.out(elements)?;
        self.on.transforms.run(compute, &self.plan, data, rows.len(), out)?;
        if self.rows.encoding != ScalarEncoding::Montgomery {
            self.on.elements.encode(compute, out.unwrap_or(data))?;
        }
        Ok([begun, compute.record_timed()?])
    }

    /// Brings a group back. Blocks until it is there.
    fn receive(&self, sent: Sent) -> Result<Slot> {
        let Sent { rows, slot, begun, done } = sent;
        // Waited for here, since a copy that is asked for holds its chunk of pinned memory.
        done.synchronize()?;
        self.transform_ns.fetch_add(done.since(&begun)?.as_nanos() as u64, Ordering::Relaxed);
        self.check(&slot)?;
        let elements = rows.len() << self.plan.transform().lg_n;
        let result = match slot.out(elements)? {
            Some(out) => out,
            None => slot.data(elements)?,
        };
        let bytes = result.cast::<u8>().ok_or_else(too_small)?;
        let mut at = rows.start as u64 * self.row_bytes();
        self.copies.download(&self.lane.streams.download, bytes, |chunk| {
            self.control.check()?;
            self.on.copier.scatter(chunk, self.rows.output, at)?;
            at += chunk.len() as u64;
            Ok::<_, Error>(())
        })?;
        Ok(slot)
    }

    /// Whether all elements of a group were some.
    fn check(&self, slot: &Slot) -> Result<()> {
        let mut word = [0; 8];
        let from = slot.refused.all::<u8>();
        self.copies.download(&self.lane.streams.download, from, |bytes| {
            word.copy_from_slice(bytes);
            Ok::<_, Error>(())
        })?;
        let Some(index) = first_bad(u64::from_le_bytes(word)) else { return Ok(()) };
        let lg_n = self.plan.transform().lg_n;
        let (row, within) = (index >> lg_n, index & ((1 << lg_n) - 1));
        let index = row * self.rows.row_length as u64 + within;
        Err(self.rows.input.refused(index, Problem::NotCanonical))
    }
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        // Where the job has failed, copies may be under way; chunks are wiped after them.
        let _waited = self.lane.streams.upload.synchronize();
        let bytes = self.rows.count * self.row_bytes() as usize;
        self.on.copier.wipe(self.on.gpu.ring(), bytes);
    }
}
