//! MSMs on one GPU. Scalars are uploaded piece by piece, and passes over them are launched while
//! later pieces are received.
//!
//! A scalar that is not canonical may be found at the end: a GPU decodes while it computes, and
//! reports the refused index with the sums. It computes with 0 instead; the client sees only the
//! error.

mod device_state;
mod pass_schedule;
mod pass_streams;
mod progress;
mod receive_schedule;
mod resident_scalars;

use std::{mem, sync::Arc, time::Instant};

use tracing::{debug, debug_span, field, field::Empty};
use zeroize::Zeroizing;

use self::{
    device_state::{MsmDeviceState, ScalarMemory, SumMemory, UndecodedScalars, too_many_scalars},
    pass_schedule::{PassSchedule, is_long, yielding_pass_ns},
    pass_streams::{PassStreams, StreamNeeds},
};
use super::{
    GpuPolicy,
    long_work::{LongPiece, LongWait, LongWork},
    payload_copy::{CopyLane, PayloadCopier},
    policy::ENGINE,
    resident::ResidentCache,
    scalar_codec::{DecodeRule, ScalarCodec, first_refused},
};
use crate::{
    buffer::{RangeSet, Wiper},
    curve::points::{Bases, MsmSums},
    device::{DeviceFault, DeviceSlice, Event, Gpu, GpuUnavailable, Stream},
    engines::{ComputedMsm, EncodedScalars, ExecutedBy, JobControl, MsmRun, record_stages},
    error::{Error, FieldProblem, Result},
    msm::{MsmBudget, MsmKernels, MsmPass, MsmPassMemory, MsmPassPlan, MsmSize, SplitThresholds},
    program::InputSpec,
};

/// Time the stages of passes with at least this many scalars: timing costs a small MSM a tenth
/// (`benches/experiments/msm.md`).
const TIMED_SCALARS_MIN: u64 = 1 << 17;

/// Staged scalars of at most this many bytes are wiped before the sums are returned: that takes
/// less time than waking another thread (`benches/experiments/transport.md`).
const WIPED_AT_ONCE_MAX: u64 = 64 << 10;

#[derive(Clone)]
pub struct GpuMsm(Arc<GpuMsmInner>);

struct GpuMsmInner {
    gpu: Gpu,
    kernels: MsmKernels,
    codec: ScalarCodec,
    copier: PayloadCopier,
    cache: ResidentCache,
    policy: Arc<GpuPolicy>,
    pass_streams: PassStreams,
    long_work: LongWork,
    /// Wipes staged scalars.
    wiper: Wiper,
}

impl GpuMsm {
    pub fn load(
        gpu: &Gpu,
        copier: PayloadCopier,
        policy: Arc<GpuPolicy>,
    ) -> std::result::Result<Self, GpuUnavailable> {
        let context = gpu.context();
        let failed = |fault| GpuUnavailable::Device { index: gpu.identity().index, fault };
        Ok(Self(Arc::new(GpuMsmInner {
            gpu: gpu.clone(),
            kernels: MsmKernels::load(context)?,
            codec: ScalarCodec::load(gpu)?,
            copier,
            cache: ResidentCache::load(gpu)?,
            policy,
            pass_streams: PassStreams::new(context).map_err(failed)?,
            long_work: LongWork::default(),
            wiper: Wiper::default(),
        })))
    }

    pub fn resident(&self) -> &ResidentCache {
        &self.0.cache
    }

    pub fn long_work(&self) -> &LongWork {
        &self.0.long_work
    }

    /// The ends of all passes launched so far.
    pub fn ends_of_passes(&self) -> std::result::Result<Vec<Event>, DeviceFault> {
        self.0.pass_streams.ends()
    }

    /// Starts an MSM. No work is done before scalars are passed.
    pub fn run(&self, bases: Bases, batch: usize, thresholds: SplitThresholds) -> Box<dyn MsmRun> {
        Box::new(GpuMsmRun {
            gpu_msm: self.0.clone(),
            bases,
            batch,
            thresholds,
            device_state: None,
            received: RangeSet::default(),
            begun: Instant::now(),
        })
    }
}

impl GpuMsmInner {
    /// Launches a pass, after the decoding of all scalars uploaded so far. A pass that yields is
    /// `piece`.
    fn launch(
        &self,
        state: &mut MsmDeviceState,
        pass: &MsmPass,
        n: u32,
        piece: Option<LongPiece>,
    ) -> Result<()> {
        let pass_stream = self.pass_streams.get(state.pass_stream);
        let stream = &pass_stream.stream;
        stream.wait_event(&state.stream.record()?)?;
        for uploaded in mem::take(&mut state.undecoded) {
            let scalars = state.scalars.slice(uploaded.first, uploaded.count)?;
            let refused = state.results.refused_word(uploaded.first)?;
            self.codec.decode(stream, uploaded.rule, scalars, scalars, refused)?;
        }
        let (first, count) = (pass.first_scalar(n) as usize, pass.scalars() as usize);
        let scalars = state.scalars.0.all().slice(first, count).ok_or_else(too_many_scalars)?;
        let plan = &state.plan;
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
        let is_large = u64::from(n) * pass.vectors.len() as u64 >= TIMED_SCALARS_MIN;
        let is_timed = is_large || !span.is_disabled();
        // Lease for the largest pass at once, since the next pass would need it.
        let bytes = plan.workspace_bytes().max(plan.pass_bytes(pass));
        let stage_events =
            self.cache.with_workspace(state.pass_stream, stream, bytes, |workspace| {
                // No other pass is launched on this stream concurrently.
                let launches = stream.launches();
                let memory = MsmPassMemory {
                    scalars,
                    bases: state.points,
                    buckets: state.buckets.all(),
                    workspace,
                    out: state.results.0.all(),
                };
                let events = self.kernels.launch_pass(stream, is_timed, plan, pass, memory)?;
                span.record("launches", stream.launches() - launches);
                Ok(events)
            })?;
        state.launched += 1;
        let end = stream.record()?;
        pass_stream.record(end.clone(), plan.modelled_pass_time(pass));
        match piece {
            Some(piece) => piece.end_at(end.clone()),
            None if is_long(plan) => self.long_work.record(end.clone()),
            None => {}
        }
        state.previous_pass = state.last_pass.replace(end);
        state.stage_events.extend(stage_events);
        Ok(())
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
}

struct GpuMsmRun {
    gpu_msm: Arc<GpuMsmInner>,
    bases: Bases,
    batch: usize,
    thresholds: SplitThresholds,
    device_state: Option<MsmDeviceState>,
    /// Scalars sent to the device, numbered across all vectors.
    received: RangeSet,
    /// When the first scalars were received, or slightly earlier.
    begun: Instant,
}

impl GpuMsmRun {
    /// On the first call, makes the bases resident and plans the MSM.
    fn prepare(&mut self, control: &JobControl) -> Result<&mut MsmDeviceState> {
        if self.device_state.is_none() {
            self.device_state = Some(self.start(control)?);
        }
        self.device_state.as_mut().ok_or_else(not_prepared)
    }

    fn start(&self, control: &JobControl) -> Result<MsmDeviceState> {
        let GpuMsmInner { gpu, cache, pass_streams, long_work, .. } = &*self.gpu_msm;
        let group = self.bases.group().name();
        let n = self.bases.len();
        let vectors = self.batch;
        let span = debug_span!("msm_start", group, n, vectors, tables = Empty, plan = Empty);
        let span = span.entered();
        // The time to upload bases must not count as the sender's.
        let waited = self.begun.elapsed();
        let stream = gpu.job_stream()?;
        let resident = cache.get(&stream, &self.bases, control)?;
        let too_large = |_| Error::Internal("the MSM has more than 2^32 scalars".to_owned());
        let n = u32::try_from(self.bases.len()).map_err(too_large)?;
        let vectors = u32::try_from(self.batch).map_err(too_large)?;
        let job = MsmSize { group: self.bases.group(), n, vectors };
        let limits = gpu.identity().limits;
        // Tables are for the whole object; other windows may suit a small part of it.
        let windows = job.choose_windows_for_tables(resident.windows(), &limits);
        let scalars = cache.lease(&stream, u64::from(n) * u64::from(vectors) * 32)?;
        let budget = MsmBudget { bytes: cache.available_bytes(), limits };
        let plan = MsmPassPlan::with_thresholds(job, windows, budget, self.thresholds);
        let mut plan = plan.ok_or_else(|| DeviceFault::OutOfMemory {
            requested_bytes: gpu.arena().bytes(),
            free_bytes: budget.bytes,
            total_bytes: gpu.arena().bytes(),
        })?;
        if control.yields() && !plan.enable_streaming() {
            let pass_ns = yielding_pass_ns(&plan);
            plan = plan.with_passes_of(pass_ns, budget);
        }
        let now = Instant::now();
        let passes = PassSchedule::new(&mut plan, now.checked_sub(waited).unwrap_or(now));
        let pass_stream = pass_streams.choose(&StreamNeeds {
            plan: &plan,
            yields: control.yields(),
            meets_long_work: long_work.pending_end()?.is_some(),
            memory_bytes: gpu.arena().bytes(),
        })?;
        let buckets = cache.lease(&pass_stream.stream, plan.bucket_bytes())?;
        let results = SumMemory(cache.lease(&stream, SumMemory::bytes(&plan))?);
        span.record("tables", plan.windows().tables());
        span.record("plan", field::display(&plan));
        debug!(n, vectors, plan = %plan, "MSM on the device");
        Ok(MsmDeviceState {
            plan,
            points: resident.points_from(self.bases.offset_in_owner()),
            passes,
            undecoded: Vec::new(),
            launched: 0,
            last_pass: None,
            previous_pass: None,
            wait: LongWait::default(),
            stage_events: Vec::new(),
            first_element: 0,
            scalars: Arc::new(ScalarMemory(scalars)),
            buckets,
            results,
            stream,
            resident,
            pass_stream: pass_stream.id,
            session: Some(Arc::new(gpu.ring().session())),
        })
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
        let first = vector * self.bases.len() + first;
        let gpu_msm = self.gpu_msm.clone();
        let control = &control.behind(&gpu_msm.policy.cancellation_gate);
        let state = self.prepare(control)?;
        // Those of a part of an MSM are later elements of their input.
        debug_assert!(scalars.first >= first as u64);
        state.first_element = scalars.first.saturating_sub(first as u64);
        let EncodedScalars { spec: InputSpec { encoding, reduce, .. }, source, .. } = *scalars;
        let count = scalars.count();
        let rule = DecodeRule { encoding, reduce, into_montgomery: false };
        let memory = state.scalars.clone();
        let stream = Stream::clone(&state.stream);
        let to = memory.slice(first, count)?;
        let all = first..first + count;
        let session = state.session.clone().ok_or_else(too_many_scalars)?;
        let lane = CopyLane { session: &session, stream: &stream };
        let copier = &gpu_msm.copier;
        if encoding.is_full() {
            let undecoded = UndecodedScalars { first, count, rule };
            if state.passes.measures_sender() {
                copier.upload(lane, to, source, 0, control, || Ok(()))?;
                return self.receive(all, Some(undecoded), control.yields());
            }
            // The passes wait for the copies on the device.
            let launch = || self.receive(all, Some(undecoded), control.yields());
            return copier.upload(lane, to, source, 0, control, launch);
        }
        // Narrow scalars are expanded from a temporary lease, at once, to free it early.
        let narrow = gpu_msm.cache.lease(&stream, scalars.spec.bytes())?;
        let from =
            narrow.all().slice(0, scalars.spec.bytes() as usize).ok_or_else(too_many_scalars)?;
        copier.upload(lane, from, source, 0, control, || Ok(()))?;
        gpu_msm.codec.decode(&stream, rule, from, to, state.results.refused_word(first)?)?;
        self.receive(all, None, control.yields())
    }

    fn absorbs_adjacent_vectors(&self) -> bool {
        true
    }

    fn has_right_bases(&mut self, control: &JobControl) -> Result<bool> {
        let (gpu_msm, bases) = (self.gpu_msm.clone(), self.bases.clone());
        let state = self.prepare(control)?;
        control.check()?;
        let is_intact = || gpu_msm.cache.is_intact(&state.stream, &state.resident, &bases);
        gpu_msm.copier.0.install(is_intact)
    }

    fn evict_bases(&mut self) {
        if let Some(state) = &self.device_state {
            self.gpu_msm.cache.evict_damaged(&state.resident);
        }
    }

    fn is_almost_done(&mut self, control: &JobControl) -> Result<bool> {
        if control.yields() {
            self.work_for_a_while(control)
        } else {
            self.work_to_the_end(control)
        }
    }

    fn finish(&mut self) -> Result<ComputedMsm> {
        let span = debug_span!(
            "msm_finish",
            passes = Empty,
            sort_us = Empty,
            accumulate_us = Empty,
            reduce_us = Empty,
        )
        .entered();
        self.prepare(&JobControl::default())?;
        self.launch_due_passes(false)?;
        let gpu_msm = &self.gpu_msm;
        let state = self.device_state.as_mut().ok_or_else(not_prepared)?;
        if !state.passes.is_empty(&state.plan) {
            return Err(Error::Internal("the MSM has not received all scalars".to_owned()));
        }
        if let Some(end) = &state.last_pass {
            state.stream.wait_event(end)?;
        }
        let results = gpu_msm.read(&state.stream, state.results.0.all())?;
        match state.session.take() {
            Some(session) if session.staged_bytes() <= WIPED_AT_ONCE_MAX => drop(session),
            session => gpu_msm.wiper.drop_later(session),
        }
        let (bytes, word) = results.split_last_chunk().ok_or_else(too_many_scalars)?;
        if let Some(index) = first_refused(u64::from_le_bytes(*word)) {
            let index = state.first_element + index;
            return Err(Error::element("elements", index, FieldProblem::NotCanonical));
        }
        let sums = match self.bases {
            Bases::G1(_) => MsmSums::G1(MsmKernels::combine_sums(&state.plan, bytes)),
            Bases::G2(_) => MsmSums::G2(MsmKernels::combine_sums(&state.plan, bytes)),
        };
        if !sums.are_on_curve() {
            gpu_msm.cache.evict_damaged(&state.resident);
            return Err(Error::Corrupt);
        }
        let mut device = format!("{}, {}", gpu_msm.gpu.identity().name, state.plan);
        if state.plan.is_streaming() && state.launched > 1 {
            device.push_str(&format!(", {} passes", state.launched));
        }
        let stages = state.stages()?;
        span.record("passes", state.launched);
        record_stages(&span, &stages);
        let executor = ExecutedBy { engine: ENGINE, device, stages, checked_on_device: false };
        Ok(ComputedMsm { sums, executor })
    }
}

fn not_prepared() -> Error {
    Error::Internal("the MSM is not prepared".to_owned())
}
