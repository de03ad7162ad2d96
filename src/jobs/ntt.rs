//! The NTT job: passes groups of rows through the engine, checks them on request.

use std::{
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use tracing::{Span, debug_span, field::Empty};
use zeroize::Zeroizing;

use super::{ComputeHost, JobReport, JobWaker, JobWork, payload::JobPayload};
use crate::{
    buffer::{PayloadPool, PayloadView, QuotaPermit, UploadBuffer},
    curve::{Fr, scalars::ScalarEncoding},
    engine::{
        CHECK_STAGE, ElementNames, EncodedScalars, Engine, JobControl, NttPlan, NttRows, StageTime,
        add_stages,
    },
    error::{Error, Result},
    verify::{self, Verification},
};

/// What a request specifies of an NTT.
#[derive(Debug, Clone, PartialEq)]
pub struct NttSpec {
    pub plan: NttPlan,
    /// Number of rows.
    pub batch: usize,
    /// Elements of a row in the input; zeros fill the row up to n.
    pub row_length: u64,
    /// Reduce elements modulo r.
    pub reduce: bool,
    pub output_encoding: ScalarEncoding,
    pub verify: Verification,
}

impl NttSpec {
    /// One forward row of 2^lg_n elements, Montgomery out, without a check.
    pub fn forward_unchecked(lg_n: u32) -> Self {
        let (inverse, coset, input_reversed, output_reversed) = Default::default();
        Self {
            plan: NttPlan { lg_n, inverse, coset, input_reversed, output_reversed },
            batch: 1,
            row_length: 1 << lg_n,
            reduce: false,
            output_encoding: ScalarEncoding::Montgomery,
            verify: Verification::None,
        }
    }

    /// Transform size: elements of a row.
    pub fn n(&self) -> u64 {
        1 << self.plan.lg_n
    }

    /// A buffer for the result. `permits` are returned when the buffer's memory is wiped.
    pub fn result_buffer(
        &self,
        pool: &PayloadPool,
        permits: Vec<QuotaPermit>,
    ) -> Result<Arc<UploadBuffer>> {
        let bytes = self.result_bytes();
        let bytes = bytes.ok_or_else(|| Error::Internal("the result's size overflows".into()))?;
        Ok(Arc::new(UploadBuffer::new(pool, bytes, permits)))
    }

    /// Bytes of the result; `None` if the size overflows.
    pub fn result_bytes(&self) -> Option<u64> {
        self.n().checked_mul(32)?.checked_mul(self.batch as u64)
    }

    /// Bytes of working memory in addition to payload and result; `None` if the size overflows.
    pub fn scratch_bytes(&self, engine: &dyn Engine) -> Option<u64> {
        let copies = if self.verify == Verification::None { 2 } else { 3 };
        let group =
            (self.rows_per_step(engine) as u64).checked_mul(self.n())?.checked_mul(32 * copies)?;
        group.checked_add(engine.ntt_scratch_bytes(&self.plan))
    }

    fn rows_per_step(&self, engine: &dyn Engine) -> usize {
        engine.ntt_group_rows(&self.plan).clamp(1, self.batch)
    }
}

pub struct NttJob {
    pub spec: NttSpec,
    pub input_encoding: ScalarEncoding,
}

pub struct NttWork {
    host: Arc<ComputeHost>,
    job: NttJob,
    payload: JobPayload,
    result: Arc<UploadBuffer>,
    rows_done: usize,
    /// Device time by stage for these rows.
    stages: Vec<StageTime>,
    verify_time: Duration,
}

impl NttWork {
    /// Transforms the rows of `payload` as they arrive and writes them to `result`, which has
    /// [`NttSpec::result_bytes`], group by group. A group is written before it is checked.
    pub fn new(
        host: Arc<ComputeHost>,
        job: NttJob,
        payload: Arc<UploadBuffer>,
        result: Arc<UploadBuffer>,
        waker: JobWaker,
    ) -> Self {
        let payload = JobPayload::new(payload, waker);
        let (rows_done, stages, verify_time) = Default::default();
        Self { host, job, payload, result, rows_done, stages, verify_time }
    }

    fn next_rows(&self) -> Range<usize> {
        let group = self.job.spec.rows_per_step(self.host.engine.as_ref());
        self.rows_done..(self.rows_done + group).min(self.job.spec.batch)
    }

    fn payload_range(&self, rows: &Range<usize>) -> Range<u64> {
        let row_bytes = self.job.spec.row_length * self.job.input_encoding.width() as u64;
        rows.start as u64 * row_bytes..rows.end as u64 * row_bytes
    }

    /// Whether the group of rows that begins with row `first` was transformed correctly.
    fn check(&self, rows: &NttRows<'_>, first: usize, control: &JobControl) -> Result<bool> {
        let n = self.job.spec.n() as usize;
        let mut input = decode_rows(&rows.input, rows.count, rows.row_length, n)?;
        let start = first as u64 * self.job.spec.n() * 32;
        let source = &PayloadView::starting_at(&self.result, start);
        let (encoding, count) = (rows.encoding, rows.count * n);
        let output = EncodedScalars { encoding, count, source, ..rows.input };
        let output = decode_rows(&output, rows.count, n, n)?;
        if self.job.spec.verify == Verification::Full {
            self.host.oracle.ntt_in_place(&self.job.spec.plan, &mut input, control)?;
            return Ok(input == output);
        }
        let mut pairs = input.iter().zip(output.iter());
        Ok(pairs.all(|(input, output)| verify::verify_ntt(&self.job.spec.plan, input, output)))
    }
}

/// Decodes `count` rows of `length` elements and pads each with zeros to `n`.
fn decode_rows(
    given: &EncodedScalars<'_>,
    count: usize,
    length: usize,
    n: usize,
) -> Result<Zeroizing<Vec<Vec<Fr>>>> {
    let mut rows = Zeroizing::new(Vec::with_capacity(count));
    for row in 0..count {
        rows.push(vec![Fr::default(); n]);
        given.decode_elements(row * length, &mut rows[row][..length])?;
    }
    Ok(rows)
}

impl JobWork for NttWork {
    type Output = JobReport;

    fn span(&self, id: u64) -> Span {
        let (op, n, batch) = ("ntt", self.job.spec.n(), self.job.spec.batch);
        debug_span!("job", id, op, n, batch, queue_us = Empty, run_us = Empty)
    }

    fn is_ready(&self) -> bool {
        self.payload.is_ready(self.payload_range(&self.next_rows()))
    }

    fn step(&mut self, control: &JobControl) -> Result<Option<JobReport>> {
        let Range { start: first, end } = self.next_rows();
        let Some(source) = self.payload.range(self.payload_range(&(first..end)))? else {
            return Ok(None);
        };
        let NttJob { spec: NttSpec { plan, reduce, verify, .. }, input_encoding: encoding } =
            self.job;
        let (count, row_length) = (end - first, self.job.spec.row_length as usize);
        let names = ElementNames { field: "input", first: first as u64 * self.job.spec.row_length };
        let input =
            EncodedScalars { encoding, reduce, count: count * row_length, names, source: &source };
        let output = &PayloadView::starting_at(&self.result, first as u64 * self.job.spec.n() * 32);
        let encoding = self.job.spec.output_encoding;
        let check_on_device = verify == Verification::Probabilistic;
        let rows = NttRows { input, count, row_length, encoding, output, check_on_device };
        let mut executor = self.host.engine.ntt(&plan, &rows, control)?;
        add_stages(&mut self.stages, &executor.stages);
        if executor.checked_on_device {
            let checks = executor.stages.iter().filter(|stage| stage.name == CHECK_STAGE);
            self.verify_time += checks.map(|stage| stage.duration).sum::<Duration>();
        } else if verify != Verification::None {
            let begun = Instant::now();
            let bytes = count * self.job.spec.n() as usize * 32;
            let is_correct = self.host.run_sized(bytes, || self.check(&rows, first, control))?;
            self.verify_time += begun.elapsed();
            if !is_correct {
                return Err(Error::Corrupt);
            }
        }
        self.rows_done = end;
        if end < self.job.spec.batch {
            return Ok(None);
        }
        executor.stages = std::mem::take(&mut self.stages);
        let (lg_n, verify_time) = (plan.lg_n, self.verify_time);
        Ok(Some(JobReport { lg_n, verify, verify_time, executor }))
    }
}
