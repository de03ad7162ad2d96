//! An NTT job: groups of rows to the engine and out again, checked if asked for.

use std::{
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use tracing::{Span, debug_span, field::Empty};
use zeroize::Zeroize;

use super::{Host, Wake, Work, payload::Payload};
use crate::{
    buffer::{Arrival, Charge, Part},
    curve::{Fr, scalars::ScalarEncoding},
    engine::{CHECK_STAGE, Control, Encoded, Engine, Executor, NttPlan, Rows, Stage, add_stages},
    error::{Error, Result},
    verify,
};

/// How to check the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NttCheck {
    /// Not at all.
    None,
    /// Recomputed by the oracle.
    Full,
    /// Evaluated at a random point.
    RandomPoint,
}

/// A transform as the caller wants it.
#[derive(Debug, Clone)]
pub struct NttJob {
    /// The transform.
    pub plan: NttPlan,
    /// Rows.
    pub batch: usize,
    /// Elements of a row as it comes; the rest of it is zeros.
    pub row_length: u64,
    /// How each element comes.
    pub input_encoding: ScalarEncoding,
    /// Elements are taken modulo r.
    pub reduce: bool,
    /// How each element goes.
    pub output_encoding: ScalarEncoding,
    /// How to check the rows.
    pub check: NttCheck,
}

impl NttJob {
    /// One forward row of 2^lg_n, Montgomery in and out, not checked.
    pub fn plain(lg_n: u32) -> Self {
        let (input_reversed, output_reversed) = (false, false);
        let plan = NttPlan { lg_n, inverse: false, coset: None, input_reversed, output_reversed };
        Self {
            plan,
            batch: 1,
            row_length: 1 << lg_n,
            input_encoding: ScalarEncoding::Montgomery,
            reduce: false,
            output_encoding: ScalarEncoding::Montgomery,
            check: NttCheck::None,
        }
    }

    /// Elements of a row.
    pub fn n(&self) -> u64 {
        1 << self.plan.lg_n
    }

    /// Where the result is to land; `held` is given back with its memory.
    ///
    /// Errors: `Internal` where it has more bytes than can be counted.
    pub fn result(&self, held: Vec<Charge>) -> Result<Arc<Arrival>> {
        let bytes = self.result_bytes();
        let bytes = bytes.ok_or_else(|| Error::Internal("a result without end".into()))?;
        Ok(Arc::new(Arrival::new(bytes, held)))
    }

    /// Bytes of the result; `None` where that many cannot be counted.
    pub fn result_bytes(&self) -> Option<u64> {
        self.n().checked_mul(32)?.checked_mul(self.batch as u64)
    }

    /// Bytes of working memory beyond payload and result; `None` as above.
    pub fn scratch_bytes(&self, engine: &dyn Engine) -> Option<u64> {
        let copies = if self.check == NttCheck::None { 2 } else { 3 };
        let group = (self.group(engine) as u64).checked_mul(self.n())?.checked_mul(32 * copies)?;
        group.checked_add(engine.ntt_scratch_bytes(&self.plan))
    }

    /// Rows that one step takes.
    fn group(&self, engine: &dyn Engine) -> usize {
        engine.ntt_group(&self.plan).clamp(1, self.batch)
    }
}

/// What an NTT job gave.
pub struct NttOutput {
    /// Of the run, how long checking took.
    pub verify: Duration,
    /// Who did it.
    pub executor: Executor,
}

/// The job as the scheduler runs it.
pub struct NttWork {
    host: Arc<Host>,
    job: NttJob,
    payload: Payload,
    result: Arc<Arrival>,
    /// Rows that are done.
    done: usize,
    /// What the device took for them.
    stages: Vec<Stage>,
    verify: Duration,
}

/// Rows that are wiped when they go.
struct Elements(Vec<Vec<Fr>>);

impl Drop for Elements {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl NttWork {
    /// Follows `arrival`; the rows land in `result`, which has [`NttJob::result_bytes`], one group
    /// after the other. A group that is not right lands before that is found out.
    pub fn new(
        host: Arc<Host>,
        job: NttJob,
        arrival: Arc<Arrival>,
        result: Arc<Arrival>,
        wake: Wake,
    ) -> Self {
        let payload = Payload::new(arrival, wake);
        let (stages, verify) = Default::default();
        Self { host, job, payload, result, done: 0, stages, verify }
    }

    /// The rows of the next step.
    fn rows(&self) -> Range<usize> {
        let group = self.job.group(self.host.engine.as_ref());
        self.done..(self.done + group).min(self.job.batch)
    }

    fn bytes(&self, rows: &Range<usize>) -> Range<u64> {
        let width = self.job.row_length * self.job.input_encoding.width() as u64;
        rows.start as u64 * width..rows.end as u64 * width
    }

    /// Whether the rows that begin with number `first` became what they should.
    fn check(&self, rows: &Rows<'_>, first: usize, control: &Control) -> Result<bool> {
        let n = self.job.n() as usize;
        let mut input = elements(&rows.input, rows.count, rows.row_length, n)?;
        let start = first as u64 * self.job.n() * 32;
        let source = &Part::at(&self.result, start);
        let (encoding, count) = (rows.encoding, rows.count * n);
        let output = Encoded { encoding, count, source, ..rows.input };
        let output = elements(&output, rows.count, n, n)?;
        if self.job.check == NttCheck::Full {
            self.host.oracle.ntt_in_place(&self.job.plan, &mut input.0, control)?;
            return Ok(input.0 == output.0);
        }
        let mut pairs = input.0.iter().zip(&output.0);
        Ok(pairs.all(|(input, output)| verify::ntt_at_random_point(&self.job.plan, input, output)))
    }
}

/// `count` rows of `length` elements, filled up to `n`.
fn elements(given: &Encoded<'_>, count: usize, length: usize, n: usize) -> Result<Elements> {
    let mut rows = Elements(Vec::with_capacity(count));
    for row in 0..count {
        rows.0.push(vec![Fr::default(); n]);
        given.elements(row * length, &mut rows.0[row][..length])?;
    }
    Ok(rows)
}

impl Work for NttWork {
    type Output = NttOutput;

    fn span(&self, id: u64) -> Span {
        let (op, n, batch) = ("ntt", self.job.n(), self.job.batch);
        debug_span!("job", id, op, n, batch, queue_us = Empty, run_us = Empty)
    }

    fn ready(&self) -> bool {
        self.payload.ready(self.bytes(&self.rows()))
    }

    fn step(&mut self, control: &Control) -> Result<Option<NttOutput>> {
        let Range { start: first, end } = self.rows();
        let Some(source) = self.payload.part(self.bytes(&(first..end)))? else {
            return Ok(None);
        };
        let NttJob { plan, input_encoding: encoding, reduce, .. } = self.job;
        let (count, row_length) = (end - first, self.job.row_length as usize);
        let name = ("input", first as u64 * self.job.row_length);
        let input = Encoded { encoding, reduce, count: count * row_length, name, source: &source };
        let output = &Part::at(&self.result, first as u64 * self.job.n() * 32);
        let encoding = self.job.output_encoding;
        let check = self.job.check == NttCheck::RandomPoint;
        let rows = Rows { input, count, row_length, encoding, output, check };
        let mut executor = self.host.engine.ntt(&plan, &rows, control)?;
        add_stages(&mut self.stages, &executor.stages);
        if executor.checked {
            let of_check = executor.stages.iter().filter(|(name, _)| *name == CHECK_STAGE);
            self.verify += of_check.map(|(_, time)| *time).sum::<Duration>();
        } else if self.job.check != NttCheck::None {
            let begun = Instant::now();
            let size = count * self.job.n() as usize * 32;
            let good = self.host.on_pool(size, || self.check(&rows, first, control))?;
            self.verify += begun.elapsed();
            if !good {
                return Err(Error::Corrupt);
            }
        }
        self.done = end;
        if end < self.job.batch {
            return Ok(None);
        }
        executor.stages = std::mem::take(&mut self.stages);
        Ok(Some(NttOutput { verify: self.verify, executor }))
    }
}
