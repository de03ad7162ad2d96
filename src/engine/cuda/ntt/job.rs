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

use tracing::{Span as Place, debug_span, field::Empty};
use zeroize::Zeroizing;

use super::{GpuNtt, GroupBuffers, NttStreams, StreamsGuard, padded_rows::PaddedRows, too_small};
use crate::{
    buffer::ByteSource,
    curve::scalars::ScalarEncoding,
    device::{CopySession, DeviceLease, DeviceSlice, Event},
    engine::{
        CHECK_STAGE, JobControl, NttRows, StageTime,
        cuda::scalar_codec::{DecodedForm, first_refused},
    },
    error::{Error, FieldProblem, Result},
    ntt::{DeviceFr, EvaluationTables, NttPassPlan, TransformEnd},
};

/// A job with all of its device resources.
pub struct GpuNttJob<'a> {
    gpu_ntt: &'a GpuNtt,
    control: &'a JobControl,
    plan: NttPassPlan,
    rows: &'a NttRows<'a>,
    streams: StreamsGuard<'a>,
    copies: CopySession,
    /// Evaluations of the input and the output, if the rows are to be checked.
    evaluations: Option<[EvaluationTables; 2]>,
    /// Nanoseconds on the device for all groups, without copies; and the part of these for checks.
    spent_ns: AtomicU64,
    checks_ns: AtomicU64,
}

/// A group that is being transformed, with its range of rows.
struct GroupInFlight {
    rows: Range<usize>,
    slot: GroupBuffers,
    under_way: GroupEvents,
}

/// When the device starts and finishes a group.
struct GroupEvents {
    begun: Event,
    done: Event,
    check: Option<GroupEvaluation>,
}

/// The evaluations of a group's rows at a secret point, before and after the transform, and when
/// the device starts and finishes each.
struct GroupEvaluation {
    values: [DeviceLease; 2],
    marks: [Event; 4],
}

impl<'a> GpuNttJob<'a> {
    pub fn new(
        on: &'a GpuNtt,
        rows: &'a NttRows<'a>,
        plan: NttPassPlan,
        evaluations: Option<[EvaluationTables; 2]>,
        lane: StreamsGuard<'a>,
        control: &'a JobControl,
    ) -> Self {
        let copies = on.gpu.ring().session();
        let (spent_ns, checks_ns) = Default::default();
        Self {
            gpu_ntt: on,
            control,
            plan,
            rows,
            streams: lane,
            copies,
            evaluations,
            spent_ns,
            checks_ns,
        }
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
        let (pass_on, under_way) = mpsc::channel();
        let receive = {
            let (give_back, place) = (give_back.clone(), Place::current());
            move || {
                let _here = place.enter();
                under_way.into_iter().try_for_each(|sent| {
                    // The receiver is gone if there are no more groups.
                    let _unwanted = give_back.send(self.receive(sent)?);
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
        let compute = &self.streams.streams.compute;
        let before = compute.launches();
        let under_way = self.launch(&rows, &slot)?;
        span.record("launches", compute.launches() - before);
        Ok(GroupInFlight { rows, slot, under_way })
    }

    fn launch(&self, rows: &Range<usize>, slot: &GroupBuffers) -> Result<GroupEvents> {
        let NttStreams { upload: stream, compute, .. } = &self.streams.streams;
        let (input, full) = (&self.rows.input, self.row_bytes());
        let elements = rows.len() << self.plan.transform().lg_n;
        let data = slot.data(elements)?;
        let bytes = data.cast::<u8>().ok_or_else(too_small)?;
        let given = self.rows.row_length as u64 * 32;
        let padded = PaddedRows { source: input.source, row_bytes: given, padded_bytes: full };
        let source: &dyn ByteSource = if given < full { &padded } else { input.source };
        let at = rows.start as u64 * full;
        self.gpu_ntt.copier.upload((&self.copies, stream), bytes, (source, at), self.control)?;
        compute.wait_event(&stream.record()?)?;
        let begun = compute.record_timed()?;
        let how = (input.encoding, input.reduce, DecodedForm::Montgomery);
        let refused = (slot.refused_word.all(), (rows.start as u64) << self.plan.transform().lg_n);
        self.gpu_ntt.elements.decode(compute, how, bytes, bytes, refused)?;
        let out = slot.out(elements)?;
        let before = self.evaluate(TransformEnd::Input, data)?;
        self.gpu_ntt.transforms.run(compute, &self.plan, data, rows.len(), out)?;
        let after = self.evaluate(TransformEnd::Output, out.unwrap_or(data))?;
        if self.rows.encoding != ScalarEncoding::Montgomery {
            self.gpu_ntt.elements.encode(compute, out.unwrap_or(data))?;
        }
        let check = before.zip(after).map(|((before, begin), (after, end))| {
            let ([a, b], [c, d]) = (begin, end);
            GroupEvaluation { values: [before, after], marks: [a, b, c, d] }
        });
        Ok(GroupEvents { begun, done: compute.record_timed()?, check })
    }

    /// Evaluates rows at a secret point, if they are to be checked. Returns the values, and when
    /// the device starts and finishes.
    fn evaluate(
        &self,
        end: TransformEnd,
        rows: DeviceSlice<'_, DeviceFr>,
    ) -> Result<Option<(DeviceLease, [Event; 2])>> {
        let Some([input, output]) = &self.evaluations else { return Ok(None) };
        let evaluation = if end == TransformEnd::Input { input } else { output };
        let compute = &self.streams.streams.compute;
        let begun = compute.record_timed()?;
        let values = self.gpu_ntt.transforms.evaluate(compute, evaluation, rows)?;
        Ok(Some((values, [begun, compute.record_timed()?])))
    }

    /// Downloads a group. Blocks until done.
    fn receive(&self, sent: GroupInFlight) -> Result<GroupBuffers> {
        let GroupInFlight { rows, slot, under_way } = sent;
        let _span = debug_span!("ntt_receive", first = rows.start, rows = rows.len()).entered();
        // Wait before starting the copy, because a pending copy holds a chunk of pinned memory.
        under_way.done.synchronize()?;
        self.add_elapsed(&self.spent_ns, &under_way.done, &under_way.begun)?;
        self.check_elements(&slot)?;
        if let Some(check) = &under_way.check {
            self.check(check)?;
        }
        let elements = rows.len() << self.plan.transform().lg_n;
        let result = match slot.out(elements)? {
            Some(out) => out,
            None => slot.data(elements)?,
        };
        let bytes = result.cast::<u8>().ok_or_else(too_small)?;
        let at = rows.start as u64 * self.row_bytes();
        let by = (&self.copies, &self.streams.streams.download);
        self.gpu_ntt.copier.download(by, bytes, (self.rows.output, at), self.control)?;
        Ok(slot)
    }

    fn add_elapsed(&self, spent_ns: &AtomicU64, end: &Event, begin: &Event) -> Result<()> {
        spent_ns.fetch_add(end.elapsed_since(begin)?.as_nanos() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Device time by stage.
    pub fn stages(&self) -> Vec<StageTime> {
        let [all, checks] = [&self.spent_ns, &self.checks_ns]
            .map(|spent_ns| Duration::from_nanos(spent_ns.load(Ordering::Relaxed)));
        let mut stages = vec![("transform", all.saturating_sub(checks))];
        stages.extend(self.evaluations.is_some().then_some((CHECK_STAGE, checks)));
        stages
    }

    /// Fails with `Corrupt` if a group's evaluations before and after the transform differ.
    fn check(&self, check: &GroupEvaluation) -> Result<()> {
        let [begin, found, begin_again, found_again] = &check.marks;
        self.add_elapsed(&self.checks_ns, found, begin)?;
        self.add_elapsed(&self.checks_ns, found_again, begin_again)?;
        let [before, after] = &check.values;
        if self.read(before)? == self.read(after)? { Ok(()) } else { Err(Error::Corrupt) }
    }

    /// Downloads a few bytes that the device has finished.
    fn read(&self, lease: &DeviceLease) -> Result<Zeroizing<Vec<u8>>> {
        let mut all = Zeroizing::new(Vec::with_capacity(lease.bytes() as usize));
        self.copies.download(&self.streams.streams.download, lease.all(), |pieces| {
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
        let (row, within) = (index >> lg_n, index & ((1 << lg_n) - 1));
        let index = row * self.rows.row_length as u64 + within;
        Err(self.rows.input.error_at(index, FieldProblem::NotCanonical))
    }
}

impl Drop for GpuNttJob<'_> {
    fn drop(&mut self) {
        // If the job has failed, copies may be under way; chunks are wiped after them.
        let _waited = self.streams.streams.upload.synchronize();
        let bytes = self.rows.count as u64 * self.row_bytes();
        self.gpu_ntt.copier.wipe(self.gpu_ntt.gpu.ring(), bytes);
    }
}
