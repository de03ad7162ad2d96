//! MSMs on one GPU. Scalars are uploaded piece by piece, and passes over them are launched while
//! later pieces are still arriving.

mod arrival_schedule;
mod device_state;
mod pass_schedule;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use tracing::{debug, debug_span, field, field::Empty};
use zeroize::Zeroizing;

use self::{
    device_state::{MsmDeviceState, UndecodedScalars},
    pass_schedule::{PassSchedule, PendingPasses},
};
use super::{
    payload_copy::PayloadCopier,
    resident::ResidentCache,
    scalar_codec::{DecodedForm, ScalarCodec, first_refused},
};
use crate::{
    buffer::{RangeSet, Wiper},
    curve::points::{Bases, MsmSums},
    device::{ALIGN, DeviceFault, DeviceSlice, Event, Gpu, GpuUnavailable, Stream},
    engine::{EncodedScalars, ExecutedBy, JobControl, MsmRun, record_stages},
    error::{Error, FieldProblem, Result},
    msm::{MsmBudget, MsmKernels, MsmPass, MsmPassPlan, MsmSize, SplitThresholds},
};

/// Time the stages of passes with at least this many scalars: timing costs a small MSM a tenth.
const TIMED_SCALARS_MIN: u64 = 1 << 17;

/// MSMs on one GPU. Clones share it.
#[derive(Clone)]
pub struct GpuMsm(Arc<GpuMsmInner>);

struct GpuMsmInner {
    gpu: Gpu,
    msm: MsmKernels,
    elements: ScalarCodec,
    copier: PayloadCopier,
    cache: ResidentCache,
    cuts: SplitThresholds,
    /// Runs all passes of all jobs in order: each pass fills the device.
    compute: Stream,
    /// Idle streams for copies.
    idle_streams: Mutex<Vec<Stream>>,
    /// Wipes staged scalars.
    wiper: Wiper,
}

impl GpuMsm {
    /// Loads the kernels. `copier` fills pinned memory.
    pub fn load(
        gpu: &Gpu,
        copier: PayloadCopier,
        cuts: SplitThresholds,
    ) -> std::result::Result<Self, GpuUnavailable> {
        let context = gpu.context();
        let failed = |fault| GpuUnavailable::Device { index: gpu.identity().index, fault };
        Ok(Self(Arc::new(GpuMsmInner {
            gpu: gpu.clone(),
            msm: MsmKernels::load(context)?,
            elements: ScalarCodec::load(gpu)?,
            copier,
            cache: ResidentCache::load(gpu)?,
            cuts,
            compute: Stream::new(context).map_err(failed)?,
            idle_streams: Mutex::default(),
            wiper: Wiper::default(),
        })))
    }

    /// Whether the object that `bases` are part of is resident.
    pub fn has_resident(&self, bases: &Bases) -> bool {
        self.0.cache.contains(bases)
    }

    /// Evicts something that no job uses: bases, else the workspace. False if there is nothing to
    /// evict.
    pub fn evict_idle(&self) -> bool {
        self.0.cache.make_room()
    }

    /// Like [`Self::evict_idle`], but evicts only if eviction can free `bytes` in one piece.
    pub fn evict_idle_for(&self, bytes: u64) -> bool {
        self.0.cache.make_room_for(bytes)
    }

    /// Starts an MSM. No work is done before scalars are passed.
    pub fn run(&self, bases: Bases, batch: usize) -> Box<dyn MsmRun> {
        self.run_with_thresholds(bases, batch, self.0.cuts)
    }

    /// Like [`Self::run`], with other thresholds for passes and tree levels.
    pub fn run_with_thresholds(
        &self,
        bases: Bases,
        batch: usize,
        cuts: SplitThresholds,
    ) -> Box<dyn MsmRun> {
        let there = RangeSet::default();
        let (computer, ready, begun) = (self.0.clone(), None, Instant::now());
        Box::new(GpuMsmRun {
            computer,
            bases,
            batch,
            cuts,
            device_state: ready,
            received: there,
            begun,
        })
    }
}

impl GpuMsmInner {
    fn stream(&self) -> Result<Stream, DeviceFault> {
        let idle = self.idle_streams.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.map_or_else(|| Stream::new(self.gpu.context()), Ok)
    }

    /// Launches a pass, after the decoding of all scalars sent so far.
    fn launch(&self, ready: &mut MsmDeviceState, pass: &MsmPass, n: u32) -> Result<()> {
        self.compute.wait_event(&ready.stream.record()?)?;
        for UndecodedScalars { first: at, count, encoding, reduce } in
            std::mem::take(&mut ready.undecoded)
        {
            let place = ready.scalars_at(at, count)?;
            let how = (encoding, reduce, DecodedForm::Canonical);
            let refused = (ready.refused_word()?, at as u64);
            self.elements.decode(&self.compute, how, place, place, refused)?;
        }
        ready.decoded = Some(self.compute.record()?);
        let (begin, count) = (pass.first_scalar(n) as usize, pass.scalars() as usize);
        let scalars = ready.scalars.all().slice(begin, count).ok_or_else(too_many_scalars)?;
        let (buckets, out) = (ready.buckets.all(), ready.out.all());
        let (plan, placed, stream) = (&ready.plan, ready.points, &self.compute);
        let span = debug_span!(
            "msm_pass",
            first = pass.points.start,
            points = pass.points.len(),
            vectors = pass.vectors.len(),
            sets = pass.sets.len(),
            onto = pass.accumulate,
            launches = Empty,
        )
        .entered();
        // Also time stages if the span is enabled.
        let large = u64::from(n) * pass.vectors.len() as u64 >= TIMED_SCALARS_MIN;
        let watch = large || !span.is_disabled();
        // Lease for the largest pass at once, since the next pass would need it.
        let bytes = plan.workspace_bytes().max(plan.pass_bytes(pass));
        let marks = self.cache.with_workspace(stream, bytes, |workspace| {
            // No other pass is launched concurrently.
            let before = stream.launches();
            let msm = &self.msm;
            let marks = msm
                .launch_pass(stream, watch, plan, pass, scalars, placed, buckets, workspace, out)?;
            span.record("launches", stream.launches() - before);
            Ok(marks)
        })?;
        ready.launched += 1;
        ready.previous_pass = ready.last_pass.replace(stream.record()?);
        ready.marks.extend(marks);
        Ok(())
    }
}

/// An MSM in progress.
struct GpuMsmRun {
    computer: Arc<GpuMsmInner>,
    bases: Bases,
    batch: usize,
    cuts: SplitThresholds,
    device_state: Option<MsmDeviceState>,
    /// Scalars sent to the device, numbered across all vectors.
    received: RangeSet,
    /// When scalars began to arrive, or slightly earlier.
    begun: Instant,
}

impl GpuMsmRun {
    /// On the first call, makes the bases resident and plans the MSM.
    fn prepare(&mut self, control: &JobControl) -> Result<&mut MsmDeviceState> {
        if self.device_state.is_none() {
            self.device_state = Some(self.start(control)?);
        }
        self.device_state
            .as_mut()
            .ok_or_else(|| Error::Internal("the MSM is not prepared".to_owned()))
    }

    fn start(&self, control: &JobControl) -> Result<MsmDeviceState> {
        let computer = &self.computer;
        let (group, n, vectors) = (self.bases.group().name(), self.bases.len(), self.batch);
        let span = debug_span!("msm_start", group, n, vectors, tables = Empty, plan = Empty);
        let span = span.entered();
        // The time to upload bases must not count as the sender's.
        let waited = self.begun.elapsed();
        let stream = computer.stream()?;
        let resident = computer.cache.get(&stream, &self.bases, control)?;
        let too_large = |_| Error::Internal("the MSM has more than 2^32 scalars".to_owned());
        let n = u32::try_from(self.bases.len()).map_err(too_large)?;
        let vectors = u32::try_from(self.batch).map_err(too_large)?;
        let job = MsmSize { group: self.bases.group(), n, vectors };
        let limits = computer.gpu.identity().limits;
        // Tables are for the whole object; other windows may suit a small part of it.
        let windows = job.choose_windows_for_tables(resident.windows(), &limits);
        let scalars_bytes =
            (u64::from(n) * u64::from(vectors) * 32).next_multiple_of(ALIGN) + ALIGN;
        let scalars = computer.cache.lease(&stream, scalars_bytes)?;
        let room = MsmBudget { bytes: computer.cache.available_bytes(), limits };
        let plan = MsmPassPlan::with_thresholds(job, windows, room, self.cuts);
        let mut plan = plan.ok_or_else(|| computer.out_of_memory(room.bytes))?;
        let now = Instant::now();
        let passes = PassSchedule::new(&mut plan, now.checked_sub(waited).unwrap_or(now));
        let buckets = computer.cache.lease(&computer.compute, plan.bucket_bytes())?;
        let out = computer.cache.lease(&computer.compute, plan.output_bytes())?;
        let placed = resident.points_from(self.bases.offset_in_owner());
        let copies = Some(computer.gpu.ring().session());
        span.record("tables", plan.windows().tables());
        span.record("plan", field::display(&plan));
        debug!(n, vectors, plan = %plan, "MSM on the device");
        Ok(MsmDeviceState {
            plan,
            points: placed,
            passes,
            undecoded: Vec::new(),
            decoded: None,
            launched: 0,
            last_pass: None,
            previous_pass: None,
            marks: Vec::new(),
            name: Default::default(),
            scalars,
            buckets,
            out,
            stream,
            _resident: resident,
            copies,
        })
    }

    /// Launches every pass that is due.
    fn launch_due_passes(&mut self) -> Result<()> {
        let n = self.bases.len();
        let Some(ready) = &mut self.device_state else { return Ok(()) };
        let reached = |done: &Event| done.is_reached().unwrap_or(false);
        loop {
            let under_way = || match (&ready.last_pass, &ready.previous_pass) {
                (done, _) if done.as_ref().is_none_or(reached) => PendingPasses::Idle,
                (_, before) if before.as_ref().is_none_or(reached) => PendingPasses::One,
                _ => PendingPasses::Several,
            };
            let next = ready.passes.next(&ready.plan, &self.received, Instant::now(), under_way);
            let Some(pass) = next else { return Ok(()) };
            self.computer.launch(ready, &pass, n as u32)?;
        }
    }
}

impl GpuMsmInner {
    /// Uploads scalars to their place. Returns when the copies are under way.
    fn upload(
        &self,
        ready: &mut MsmDeviceState,
        at: usize,
        scalars: &EncodedScalars<'_>,
        control: &JobControl,
    ) -> Result<()> {
        let EncodedScalars { encoding, reduce, count, source, .. } = *scalars;
        let (stream, place) = (&ready.stream, ready.scalars_at(at, count)?);
        let copies = ready.copies.as_ref().ok_or_else(too_many_scalars)?;
        if encoding.is_full() {
            self.copier.upload((copies, stream), place, (source, 0), control)?;
            ready.record_upload(UndecodedScalars { first: at, count, encoding, reduce });
            return Ok(());
        }
        // Narrow scalars are expanded from a temporary lease, at once, to free it early.
        let narrow = self.cache.lease(stream, scalars.bytes() as u64)?;
        let from = narrow.all().slice(0, scalars.bytes()).ok_or_else(too_many_scalars)?;
        self.copier.upload((copies, stream), from, (source, 0), control)?;
        let refused = (ready.refused_word()?, at as u64);
        let how = (encoding, reduce, DecodedForm::Canonical);
        Ok(self.elements.decode(stream, how, from, place, refused)?)
    }

    /// Downloads `from`, after all earlier work on `stream`.
    fn read(
        &self,
        stream: &Stream,
        from: DeviceSlice<'_, u8>,
    ) -> Result<Zeroizing<Vec<u8>>, DeviceFault> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(from.len()));
        self.gpu.ring().download(stream, from, |piece| {
            bytes.extend_from_slice(piece);
            Ok::<_, DeviceFault>(())
        })?;
        Ok(bytes)
    }

    fn out_of_memory(&self, free_bytes: u64) -> Error {
        let requested_bytes = self.gpu.arena().bytes();
        DeviceFault::OutOfMemory { requested_bytes, free_bytes }.into()
    }
}

impl MsmRun for GpuMsmRun {
    fn absorb(
        &mut self,
        vector: usize,
        first: usize,
        scalars: &EncodedScalars<'_>,
        control: &JobControl,
    ) -> Result<()> {
        let at = vector * self.bases.len() + first;
        let computer = self.computer.clone();
        let ready = self.prepare(control)?;
        let (name, number) = scalars.name;
        ready.name = (name, number.wrapping_sub(at as u64));
        computer.upload(ready, at, scalars, control)?;
        self.received.insert(at as u64..(at + scalars.count) as u64);
        self.launch_due_passes()
    }

    fn finish(mut self: Box<Self>) -> Result<(MsmSums, ExecutedBy)> {
        let span = debug_span!(
            "msm_finish",
            passes = Empty,
            sort_us = Empty,
            accumulate_us = Empty,
            reduce_us = Empty,
        )
        .entered();
        let bases = self.bases.clone();
        self.prepare(&JobControl::default())?;
        self.launch_due_passes()?;
        let computer = self.computer.clone();
        let Some(ready) = &mut self.device_state else {
            return Err(Error::Internal("the MSM is not prepared".to_owned()));
        };
        if !ready.passes.is_empty(&ready.plan) {
            return Err(Error::Internal("the MSM has not received all scalars".to_owned()));
        }
        // Decoding finishes long before the sums, so report a refused scalar first.
        if let Some(decoded) = &ready.decoded {
            ready.stream.wait_event(decoded)?;
        }
        let word = computer
            .read(&ready.stream, ready.refused_word()?.cast().ok_or_else(too_many_scalars)?)?;
        let word =
            word.as_slice().try_into().map(u64::from_le_bytes).map_err(|_| too_many_scalars())?;
        if let Some(index) = first_refused(word) {
            let (name, offset) = ready.name;
            let index = index.wrapping_add(offset);
            return Err(Error::element(name, index, FieldProblem::NotCanonical));
        }
        computer.wiper.drop_later(ready.copies.take());
        if let Some(done) = &ready.last_pass {
            ready.stream.wait_event(done)?;
        }
        let bytes = computer.read(&ready.stream, ready.out.all())?;
        let sums = match bases {
            Bases::G1(_) => MsmSums::G1(MsmKernels::combine_sums(&ready.plan, &bytes)),
            Bases::G2(_) => MsmSums::G2(MsmKernels::combine_sums(&ready.plan, &bytes)),
        };
        let mut idle = computer.idle_streams.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(ready.stream.clone());
        drop(idle);
        let mut device = format!("{}, {}", computer.gpu.identity().name, ready.plan);
        if ready.plan.is_streaming() && ready.launched > 1 {
            device.push_str(&format!(", {} passes", ready.launched));
        }
        let stages = ready.stages()?;
        span.record("passes", ready.launched);
        record_stages(&span, &stages);
        Ok((sums, ExecutedBy { engine: super::ENGINE, device, stages, checked_on_device: false }))
    }
}

fn too_many_scalars() -> Error {
    Error::Internal("the MSM received more scalars than it has bases".to_owned())
}
