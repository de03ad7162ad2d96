//! An NTT job: groups of rows to the engine and out again, checked if asked for.

use std::{
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use zeroize::{Zeroize, Zeroizing};

use super::{Host, Wake, Work, payload::Payload};
use crate::{
    buffer::Arrival,
    curve::{
        Fr,
        scalars::{ScalarEncoding, decode_fr, encode_fr},
    },
    engine::{Control, Engine, Executor, NttPlan},
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
    /// The rows, encoded.
    pub rows: Vec<Zeroizing<Vec<u8>>>,
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
    buffer: Zeroizing<Vec<u8>>,
    output: Vec<Zeroizing<Vec<u8>>>,
    verify: Duration,
}

/// Rows that are wiped when they go.
struct Rows(Vec<Vec<Fr>>);

impl Drop for Rows {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl NttWork {
    /// Follows `arrival`.
    pub fn new(host: Arc<Host>, job: NttJob, arrival: Arc<Arrival>, wake: Wake) -> Self {
        let payload = Payload::new(arrival, wake);
        let output = Vec::with_capacity(job.batch);
        Self { host, job, payload, buffer: Zeroizing::default(), output, verify: Duration::ZERO }
    }

    /// The rows of the next step.
    fn rows(&self) -> Range<usize> {
        let group = self.job.group(self.host.engine.as_ref());
        self.output.len()..(self.output.len() + group).min(self.job.batch)
    }

    fn bytes(&self, rows: &Range<usize>) -> Range<u64> {
        let width = self.job.row_length * self.job.input_encoding.width() as u64;
        rows.start as u64 * width..rows.end as u64 * width
    }

    fn decode(&self, bytes: &[u8], first: usize) -> Result<Rows> {
        let (length, n) = (self.job.row_length as usize, self.job.n() as usize);
        let mut rows = Rows(Vec::new());
        for row in 0..self.rows().len() {
            let mut elements = vec![Fr::default(); n];
            let bytes = &bytes[row * length * 32..(row + 1) * length * 32];
            let (encoding, reduce) = (self.job.input_encoding, self.job.reduce);
            let decoded = decode_fr(encoding, bytes, reduce, &mut elements[..length]);
            rows.0.push(elements);
            decoded.map_err(|bad| {
                let index = ((first + row) * length) as u64 + bad.index;
                Error::element("input", index, bad.problem)
            })?;
        }
        Ok(rows)
    }

    fn encode(&self, rows: &Rows) -> Vec<Zeroizing<Vec<u8>>> {
        let encode = |row: &Vec<Fr>| {
            let mut bytes = Zeroizing::new(vec![0; row.len() * 32]);
            encode_fr(self.job.output_encoding, row, &mut bytes);
            bytes
        };
        rows.0.iter().map(encode).collect()
    }

    fn check(&self, mut input: Rows, output: &Rows, control: &Control) -> Result<bool> {
        if self.job.check == NttCheck::Full {
            self.host.oracle.ntt(&self.job.plan, &mut input.0, control)?;
            return Ok(input.0 == output.0);
        }
        let mut pairs = input.0.iter().zip(&output.0);
        Ok(pairs.all(|(input, output)| verify::ntt_at_random_point(&self.job.plan, input, output)))
    }
}

impl Work for NttWork {
    type Output = NttOutput;

    fn ready(&self) -> bool {
        self.payload.ready(self.bytes(&self.rows()))
    }

    fn step(&mut self, control: &Control) -> Result<Option<NttOutput>> {
        let rows = self.rows();
        let buffer = std::mem::take(&mut self.buffer);
        let Some(bytes) = self.payload.take(self.bytes(&rows), buffer)? else {
            return Ok(None);
        };
        let host = self.host.clone();
        let size = rows.len() * self.job.n() as usize * 32;
        let mut elements = host.on_pool(size, || self.decode(&bytes, rows.start))?;
        self.buffer = bytes;
        let input = (self.job.check != NttCheck::None).then(|| Rows(elements.0.clone()));
        let executor = host.engine.ntt(&self.job.plan, &mut elements.0, control)?;
        if let Some(input) = input {
            let begun = Instant::now();
            let good = host.on_pool(size, || self.check(input, &elements, control))?;
            self.verify += begun.elapsed();
            if !good {
                return Err(Error::Corrupt);
            }
        }
        let encoded = host.on_pool(size, || self.encode(&elements));
        self.output.extend(encoded);
        Ok((self.output.len() == self.job.batch).then(|| {
            let rows = std::mem::take(&mut self.output);
            NttOutput { rows, verify: self.verify, executor }
        }))
    }
}
