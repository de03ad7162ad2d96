//! An MSM job: pieces of the scalars to the engine, sums out, checked if asked for.

use std::{
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{Host, Wake, Work, payload::Payload};
use crate::{
    buffer::Arrival,
    curve::{
        G1Affine, G2Affine, Group,
        points::{self, Bad, Bases, CurvePoint, PointEncoding, PointSlice, ResultEncoding, Sums},
        scalars::ScalarEncoding,
    },
    engine::{Control, Encoded, Engine, Executor, MsmRun},
    error::{Error, Problem, Result},
};
use bytes::Bytes;

/// Where the job's bases come from.
pub enum JobBases {
    /// Checked already.
    Checked(Bases),
    /// To be checked by the job: group, encoding, bytes, points.
    Inline(Group, PointEncoding, Bytes, usize),
}

impl JobBases {
    fn group(&self) -> Group {
        match self {
            Self::Checked(bases) => bases.group(),
            Self::Inline(group, ..) => *group,
        }
    }

    /// How many points there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Checked(bases) => bases.len(),
            Self::Inline(.., count) => *count,
        }
    }

    /// True where there is no point.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// An MSM as the caller wants it.
pub struct MsmJob {
    /// The bases.
    pub bases: JobBases,
    /// Scalar vectors, each as long as the bases, one after another in the payload.
    pub batch: usize,
    /// How each scalar is written.
    pub encoding: ScalarEncoding,
    /// Scalars are taken modulo r.
    pub reduce: bool,
    /// How to write the sums.
    pub result_encoding: ResultEncoding,
    /// The result is recomputed by the oracle.
    pub verify: bool,
}

impl MsmJob {
    /// Bytes of working memory beyond the payload.
    pub fn scratch_bytes(&self, engine: &dyn Engine) -> u64 {
        let (group, n) = (self.bases.group(), self.bases.len());
        let piece = engine.msm_piece(group, n).clamp(1, n.max(1)) as u64;
        let inline = match &self.bases {
            JobBases::Checked(_) => 0,
            JobBases::Inline(..) => (n * group.affine_bytes()) as u64,
        };
        let result = (self.batch * (3 * group.coordinate_bytes())) as u64;
        piece * 33 + inline + result + engine.msm_scratch_bytes(group, n)
    }
}

/// What an MSM job gave.
pub struct MsmOutput {
    /// The sums, encoded, one after another.
    pub points: Vec<u8>,
    /// Of the run, how long checking took.
    pub verify: Duration,
    /// Who did it.
    pub executor: Executor,
}

/// The job as the scheduler runs it.
pub struct MsmWork {
    host: Arc<Host>,
    job: MsmJob,
    payload: Payload,
    phase: Phase,
    executor: Executor,
    verify: Duration,
}

enum Phase {
    /// Inline bases are not checked yet.
    Prepare,
    /// The engine, or with `expected` the oracle, is at work; the next scalar is number `next`.
    Absorb { run: Box<dyn MsmRun>, next: usize, expected: Option<Sums> },
    /// An earlier step failed.
    Over,
}

impl MsmWork {
    /// Follows `arrival`.
    pub fn new(host: Arc<Host>, job: MsmJob, arrival: Arc<Arrival>, wake: Wake) -> Self {
        Self {
            host,
            job,
            payload: Payload::new(arrival, wake),
            phase: Phase::Prepare,
            executor: Executor::default(),
            verify: Duration::ZERO,
        }
    }

    fn bases(&mut self) -> Result<Bases> {
        if let JobBases::Inline(group, encoding, data, _) = &self.job.bases {
            let decode = || match group {
                Group::G1 => decode_bases::<G1Affine>(*encoding, data),
                Group::G2 => decode_bases::<G2Affine>(*encoding, data),
            };
            // A point takes far longer than its bytes suggest.
            let bases = self.host.on_pool(data.len() << 8, decode);
            let refused =
                |bad: Bad| Error::element("spec.bases.inline.data", bad.index, bad.problem);
            self.job.bases = JobBases::Checked(bases.map_err(refused)?);
        }
        match &self.job.bases {
            JobBases::Checked(bases) => Ok(bases.clone()),
            JobBases::Inline(..) => Err(Error::Internal("bases were not decoded".into())),
        }
    }

    fn total(&self) -> usize {
        self.job.batch * self.job.bases.len()
    }

    /// The scalars of the piece that begins with number `next`, within one vector.
    fn piece(&self, next: usize, engine: &dyn Engine) -> Range<usize> {
        let n = self.job.bases.len();
        if n == 0 {
            return 0..0;
        }
        let left = n - next % n;
        let best = engine.msm_piece(self.job.bases.group(), n).max(1);
        // Two pieces of a half each rather than a full one and a scrap.
        let pieces = left.div_ceil(best);
        next..(next + left.div_ceil(pieces)).min(self.total())
    }

    fn bytes(&self, piece: &Range<usize>) -> Range<u64> {
        let width = self.job.encoding.width() as u64;
        piece.start as u64 * width..piece.end as u64 * width
    }

    fn absorb(
        &mut self,
        mut run: Box<dyn MsmRun>,
        next: usize,
        expected: Option<Sums>,
        control: &Control,
    ) -> Result<Option<Sums>> {
        let host = self.host.clone();
        let engine = if expected.is_some() { &host.oracle } else { &host.engine };
        let piece = self.piece(next, engine.as_ref());
        let Some(source) = self.payload.part(self.bytes(&piece))? else {
            self.phase = Phase::Absorb { run, next, expected };
            return Ok(None);
        };
        if !piece.is_empty() {
            let MsmJob { encoding, reduce, .. } = self.job;
            let (count, name) = (piece.len(), ("scalars", piece.start as u64));
            let scalars = Encoded { encoding, reduce, count, name, source: &source };
            let n = self.job.bases.len();
            run.absorb(piece.start / n, piece.start % n, &scalars, control)?;
        }
        if piece.end < self.total() {
            self.phase = Phase::Absorb { run, next: piece.end, expected };
            return Ok(None);
        }
        if expected.is_none() {
            self.executor = run.executor();
        }
        let sums = run.finish()?;
        match expected {
            None if self.job.verify => {
                let run = host.oracle.msm(self.bases()?, self.job.batch)?;
                self.phase = Phase::Absorb { run, next: 0, expected: Some(sums) };
                Ok(None)
            }
            Some(engines) if engines != sums => Err(Error::Corrupt),
            Some(engines) => Ok(Some(engines)),
            None => Ok(Some(sums)),
        }
    }

    fn output(&self, sums: &Sums) -> MsmOutput {
        let encoding = self.job.result_encoding;
        let points = self.host.on_pool(sums.len() << 10, || points::encode_sums(encoding, sums));
        MsmOutput { points, verify: self.verify, executor: self.executor.clone() }
    }
}

fn decode_bases<A: CurvePoint>(encoding: PointEncoding, data: &[u8]) -> Result<Bases, Bad> {
    points::decode::<A>(encoding, data).map(|points| A::bases(PointSlice::new(Arc::new(points))))
}

impl Work for MsmWork {
    type Output = MsmOutput;

    fn ready(&self) -> bool {
        match &self.phase {
            Phase::Prepare => true,
            Phase::Absorb { next, expected, .. } => {
                let host = &self.host;
                let engine = if expected.is_some() { &host.oracle } else { &host.engine };
                self.payload.ready(self.bytes(&self.piece(*next, engine.as_ref())))
            }
            Phase::Over => true,
        }
    }

    fn step(&mut self, control: &Control) -> Result<Option<MsmOutput>> {
        match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Over => Err(Error::Internal("stepped after its end".into())),
            Phase::Prepare => {
                let bases = self.bases()?;
                let run = self.host.engine.msm(bases, self.job.batch)?;
                let sums = self.absorb(run, 0, None, control)?;
                Ok(sums.map(|sums| self.output(&sums)))
            }
            Phase::Absorb { run, next, expected } => {
                let (checking, begun) = (expected.is_some(), Instant::now());
                let sums = self.absorb(run, next, expected, control)?;
                if checking {
                    self.verify += begun.elapsed();
                }
                Ok(sums.map(|sums| self.output(&sums)))
            }
        }
    }
}

/// Scalars that the payload must hold: `batch` vectors of `n`.
///
/// Errors: `Invalid` where `count` is another number, or the product cannot be counted.
pub fn check_count(field: &'static str, count: u64, batch: usize, n: u64) -> Result<()> {
    let expected = (batch as u64)
        .checked_mul(n)
        .ok_or(Error::field(field, Problem::TooLarge { max: u64::MAX }))?;
    if count != expected {
        return Err(Error::field(field, Problem::Length { expected, got: count }));
    }
    Ok(())
}
