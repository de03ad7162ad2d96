//! An NTT job on a GPU: groups of rows are uploaded, transformed and downloaded concurrently.

use std::{
    ops::Range,
    panic,
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use tracing::{Span, debug_span, field::Empty};
use zeroize::Zeroizing;

use super::group_memory::{GroupBuffers, NttStreams, too_small};
use crate::{
    buffer::ByteSource,
    curve::scalars::ScalarEncoding,
    device::{CopySession, DeviceLease, DeviceSlice, Event, Gpu, Stream},
    engines::{
        CHECK_STAGE, JobControl, NttRows, StageTime,
        cuda::{
            payload_copy::{CopyLane, PayloadCopier},
            scalar_codec::{DecodeRule, RefusedWord, ScalarCodec, first_refused},
        },
    },
    error::{Error, FieldProblem, Result},
    ntt::{DeviceFr, EvaluationTables, NttDevice, NttPassPlan, TransformEnd},
    program::InputSpec,
};

pub struct NttResources {
    pub gpu: Gpu,
    pub transforms: NttDevice,
    pub codec: ScalarCodec,
    pub copier: PayloadCopier,
}

pub struct GpuNttJob<'a> {
    resources: &'a NttResources,
    control: JobControl,
    plan: NttPassPlan,
    rows: &'a NttRows<'a>,
    streams: NttStreams,
    session: CopySession,
    /// Evaluations of the input and the output, if the rows are to be checked.
    evaluations: Option<[EvaluationTables; 2]>,
    /// Nanoseconds on the device for all groups, without copies.
    device_ns: AtomicU64,
    /// The part of these for checks.
    checks_ns: AtomicU64,
}

/// A group that is being transformed, with its range of rows.
struct GroupInFlight {
    rows: Range<usize>,
    slot: GroupBuffers,
    transform: LaunchedTransform,
}

/// When the device starts and finishes a transform.
struct LaunchedTransform {
    begun: Event,
    done: Event,
    /// Evaluations at a secret point, before and after the transform.
    check: Option<[TimedEvaluation; 2]>,
}

/// Evaluations, and when the device starts and finishes them.
struct TimedEvaluation {
    values: DeviceLease,
    begun: Event,
    done: Event,
}

impl<'a> GpuNttJob<'a> {
    pub fn new(
        resources: &'a NttResources,
        rows: &'a NttRows<'a>,
        plan: NttPassPlan,
        evaluations: Option<[EvaluationTables; 2]>,
        streams: NttStreams,
        control: JobControl,
    ) -> Self {
        let session = resources.gpu.ring().session();
        let (device_ns, checks_ns) = Default::default();
        Self { resources, control, plan, rows, streams, session, evaluations, device_ns, checks_ns }
    }

    /// Transforms all rows, `group` of them at a time, in `slots`.
    pub fn run(&self, group: usize, mut slots: Vec<GroupBuffers>) -> Result<()> {
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

    /// Uploads groups on this thread and downloads them on another one.
    fn overlap(
        &self,
        mut groups: impl Iterator<Item = Range<usize>>,
        slots: Vec<GroupBuffers>,
    ) -> Result<()> {
        let (give_back, free) = mpsc::channel();
        let (pass_on, in_flight) = mpsc::channel();
        let receive = {
            let give_back = give_back.clone();
            let span = Span::current();
            move || {
                let _entered = span.enter();
                in_flight.into_iter().try_for_each(|group| {
                    // The receiver is gone if there are no more groups.
                    let _unwanted = give_back.send(self.receive(group)?);
                    Ok(())
                })
            }
        };
        for slot in slots {
            give_back.send(slot).map_err(|_| too_small())?;
        }
        // Now only the other thread holds a sender: if it ends, `free` is closed.
        drop(give_back);
        thread::scope(|scope| {
            let name = "capstan-download".to_owned();
            let receiver = thread::Builder::new().name(name).spawn_scoped(scope, receive);
            let receiver = receiver
                .map_err(|error| Error::Internal(format!("no download thread: {error}")))?;
            let sent = groups.try_for_each(|rows| {
                // If the other thread has failed, its error is the job's.
                let Ok(slot) = free.recv() else { return Ok(()) };
                // If the receiver is gone, the other thread has failed, too.
                let _gone = pass_on.send(self.send(rows, slot)?);
                Ok(())
            });
            drop(pass_on);
            let received = receiver.join().unwrap_or_else(|cause| panic::resume_unwind(cause));
            sent.and(received)
        })
    }

    fn row_bytes(&self) -> u64 {
        (size_of::<DeviceFr>() as u64) << self.plan.transform().lg_n
    }

    /// Uploads a group and launches its transform. Returns when the work is under way.
    fn send(&self, rows: Range<usize>, slot: GroupBuffers) -> Result<GroupInFlight> {
        self.control.check()?;
        let (first, count) = (rows.start, rows.len());
        let span = debug_span!("ntt_send", first, rows = count, launches = Empty).entered();
        let compute = &self.streams.compute;
        let launches = compute.launches();
        let group = self.launch(rows, slot)?;
        span.record("launches", compute.launches() - launches);
        Ok(group)
    }

    fn lane<'s>(&'s self, stream: &'s Stream) -> CopyLane<'s> {
        CopyLane { session: &self.session, stream }
    }

    /// Launches the transform while the rows are being copied.
    fn launch(&self, rows: Range<usize>, slot: GroupBuffers) -> Result<GroupInFlight> {
        let input = &self.rows.input;
        let padded_bytes = self.row_bytes();
        let data = slot.data(rows.len() << self.plan.transform().lg_n)?;
        let bytes = data.cast::<u8>().ok_or_else(too_small)?;
        let row_bytes = self.rows.row_length as u64 * 32;
        let padded = PaddedRows { source: input.source, row_bytes, padded_bytes };
        let source: &dyn ByteSource = if row_bytes < padded_bytes { &padded } else { input.source };
        let offset = rows.start as u64 * padded_bytes;
        let lane = self.lane(&self.streams.upload);
        let control = &self.control;
        let meanwhile = || self.launch_transform(&rows, &slot);
        let copier = &self.resources.copier;
        let transform = copier.upload(lane, bytes, source, offset, control, meanwhile)?;
        Ok(GroupInFlight { rows, slot, transform })
    }

    /// Launches the transform of a group after its upload.
    fn launch_transform(
        &self,
        rows: &Range<usize>,
        slot: &GroupBuffers,
    ) -> Result<LaunchedTransform> {
        let NttResources { transforms, codec, .. } = self.resources;
        let NttStreams { upload, compute, .. } = &self.streams;
        let lg_n = self.plan.transform().lg_n;
        let data = slot.data(rows.len() << lg_n)?;
        let bytes = data.cast::<u8>().ok_or_else(too_small)?;
        compute.wait_event(&upload.record()?)?;
        let begun = compute.record_timed()?;
        let input = &self.rows.input;
        let InputSpec { encoding, reduce, .. } = input.spec;
        let rule = DecodeRule { encoding, reduce, into_montgomery: true };
        let first = (rows.start as u64) << lg_n;
        let refused = RefusedWord { word: slot.refused_word.all(), first };
        codec.decode(compute, rule, bytes, bytes, refused)?;
        let out = slot.out(rows.len() << lg_n)?;
        let input = self.evaluate(TransformEnd::Input, data)?;
        transforms.run(compute, &self.plan, data, rows.len(), out)?;
        let output = self.evaluate(TransformEnd::Output, out.unwrap_or(data))?;
        if self.rows.encoding != ScalarEncoding::Montgomery {
            codec.encode(compute, out.unwrap_or(data))?;
        }
        let check = input.zip(output).map(<[_; 2]>::from);
        Ok(LaunchedTransform { begun, done: compute.record_timed()?, check })
    }

    /// Evaluates rows at a secret point, if they are to be checked.
    fn evaluate(
        &self,
        end: TransformEnd,
        rows: DeviceSlice<'_, DeviceFr>,
    ) -> Result<Option<TimedEvaluation>> {
        let Some([input, output]) = &self.evaluations else { return Ok(None) };
        let tables = if end == TransformEnd::Input { input } else { output };
        let compute = &self.streams.compute;
        let begun = compute.record_timed()?;
        let values = self.resources.transforms.evaluate(compute, tables, rows)?;
        Ok(Some(TimedEvaluation { values, begun, done: compute.record_timed()? }))
    }

    /// Downloads a group. Blocks until done.
    fn receive(&self, group: GroupInFlight) -> Result<GroupBuffers> {
        let GroupInFlight { rows, slot, transform } = group;
        let LaunchedTransform { begun, done, check } = transform;
        let _span = debug_span!("ntt_receive", first = rows.start, rows = rows.len()).entered();
        self.streams.download.wait_event(&done)?;
        // Waits for the transform. Meanwhile the copy of a word holds a chunk of the ring; those of
        // the rows hold none yet.
        self.check_elements(&slot)?;
        add_elapsed(&self.device_ns, &begun, &done)?;
        if let Some(evaluations) = &check {
            self.check(evaluations)?;
        }
        let elements = rows.len() << self.plan.transform().lg_n;
        let result = match slot.out(elements)? {
            Some(out) => out,
            None => slot.data(elements)?,
        };
        let bytes = result.cast::<u8>().ok_or_else(too_small)?;
        let offset = rows.start as u64 * self.row_bytes();
        let lane = self.lane(&self.streams.download);
        let output = self.rows.output;
        self.resources.copier.download(lane, bytes, output, offset, &self.control)?;
        Ok(slot)
    }

    /// Device time by stage.
    pub fn stages(&self) -> Vec<StageTime> {
        let [all, checks] = [&self.device_ns, &self.checks_ns]
            .map(|spent_ns| Duration::from_nanos(spent_ns.load(Ordering::Relaxed)));
        let transform = StageTime { name: "transform", duration: all.saturating_sub(checks) };
        let check = StageTime { name: CHECK_STAGE, duration: checks };
        [transform].into_iter().chain(self.evaluations.is_some().then_some(check)).collect()
    }

    /// Fails with `Corrupt` if a group's evaluations before and after the transform differ.
    fn check(&self, evaluations: &[TimedEvaluation; 2]) -> Result<()> {
        for evaluation in evaluations {
            add_elapsed(&self.checks_ns, &evaluation.begun, &evaluation.done)?;
        }
        let [input, output] = evaluations;
        let is_right = self.read(&input.values)? == self.read(&output.values)?;
        if is_right { Ok(()) } else { Err(Error::Corrupt) }
    }

    /// Downloads a few bytes that the device has finished.
    fn read(&self, lease: &DeviceLease) -> Result<Zeroizing<Vec<u8>>> {
        let mut all = Zeroizing::new(Vec::with_capacity(lease.bytes() as usize));
        self.session.download(&self.streams.download, lease.all(), |pieces| {
            pieces.iter().for_each(|bytes| all.extend_from_slice(bytes));
            Ok::<_, Error>(())
        })?;
        Ok(all)
    }

    /// Fails with `Invalid` if a group has an element that is not canonical.
    fn check_elements(&self, slot: &GroupBuffers) -> Result<()> {
        let word = self.read(&slot.refused_word)?.as_slice().try_into().map(u64::from_le_bytes);
        let Some(index) = first_refused(word.unwrap_or_default()) else { return Ok(()) };
        let lg_n = self.plan.transform().lg_n;
        let (row, column) = (index >> lg_n, index & ((1 << lg_n) - 1));
        let index = row * self.rows.row_length as u64 + column;
        Err(self.rows.input.error_at(index, FieldProblem::NotCanonical))
    }
}

fn add_elapsed(sum_ns: &AtomicU64, begun: &Event, done: &Event) -> Result<()> {
    sum_ns.fetch_add(done.elapsed_since(begun)?.as_nanos() as u64, Ordering::Relaxed);
    Ok(())
}

impl Drop for GpuNttJob<'_> {
    fn drop(&mut self) {
        // If the job has failed, copies may be under way; chunks are wiped after them.
        let _waited = self.streams.upload.synchronize();
        self.resources.copier.wipe(&self.session);
    }
}

/// Rows shorter than the transform, padded with zeros.
struct PaddedRows<'a> {
    source: &'a dyn ByteSource,
    /// Bytes of a row before and after padding.
    row_bytes: u64,
    padded_bytes: u64,
}

impl ByteSource for PaddedRows<'_> {
    fn read(&self, offset: u64, out: &mut [u8]) {
        let mut done = 0;
        while done < out.len() {
            let offset = offset + done as u64;
            let (row, column) = (offset / self.padded_bytes, offset % self.padded_bytes);
            let is_padding = column >= self.row_bytes;
            let end = if is_padding { self.padded_bytes } else { self.row_bytes };
            let bytes = ((end - column) as usize).min(out.len() - done);
            let part = &mut out[done..done + bytes];
            if is_padding {
                part.fill(0);
            } else {
                self.source.read(row * self.row_bytes + column, part);
            }
            done += bytes;
        }
    }

    fn is_intact(&self) -> bool {
        self.source.is_intact()
    }
}
