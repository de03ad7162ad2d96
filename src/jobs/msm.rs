//! An MSM job: pieces of the scalars to the engine, sums out, checked if asked for.

use std::{
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{Host, Wake, Work, combination::Combination, payload::Payload};
use crate::{
    buffer::{Arrival, Part},
    curve::{
        G1Affine, G2Affine, Group, layout,
        points::{self, Bad, Bases, CurvePoint, PointEncoding, PointSlice, ResultEncoding, Sums},
        scalars::ScalarEncoding,
    },
    engine::{Control, Encoded, Engine, Executor, MsmRun},
    error::{Error, Problem, Result},
};
use bytes::Bytes;
use tracing::{Span, debug_span, field::Empty};

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

/// How to check the sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MsmCheck {
    /// Not at all.
    None,
    /// Recomputed by the oracle.
    Full,
    /// By one more MSM of the engine's, of a random linear combination of all vectors.
    Combination,
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
    /// How to check the sums.
    pub check: MsmCheck,
}

impl MsmJob {
    /// Bytes of working memory beyond the payload.
    pub fn scratch_bytes(&self, host: &Host) -> u64 {
        let (group, n) = (self.bases.group(), self.bases.len());
        let inline = match &self.bases {
            JobBases::Checked(_) => 0,
            JobBases::Inline(..) => (n * group.affine_bytes()) as u64,
        };
        let result = (self.batch * (3 * group.coordinate_bytes())) as u64;
        let (engine, oracle) = (host.engine.as_ref(), host.oracle.as_ref());
        let run = match self.check {
            MsmCheck::None => self.run_bytes(engine, 33),
            // One after the other.
            MsmCheck::Full => self.run_bytes(engine, 33).max(self.run_bytes(oracle, 33)),
            // The combination is summed up and written.
            MsmCheck::Combination => self.run_bytes(engine, 33 + 64),
        };
        run + inline + result
    }

    /// What a run of `engine` takes, with `each` bytes a scalar of a piece.
    fn run_bytes(&self, engine: &dyn Engine, each: u64) -> u64 {
        let (group, n) = (self.bases.group(), self.bases.len());
        let piece = engine.msm_piece(group, n).clamp(1, n.max(1)) as u64;
        piece * each + engine.msm_scratch_bytes(group, n)
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
    /// The engine is at work; the next scalar is number `next`.
    Absorb { run: Box<dyn MsmRun>, next: usize },
    /// The sums are being checked; likewise.
    Check { run: Box<dyn MsmRun>, next: usize, sums: Sums, by: By },
    /// An earlier step failed.
    Over,
}

/// How sums are checked.
enum By {
    /// Recomputed by the oracle.
    Oracle,
    /// By the engine, with these factors.
    Combination(Combination),
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

    /// Scalars `piece`, counted through all vectors; `source` holds them alone.
    fn scalars<'a>(&self, source: &'a Part<'a>, piece: &Range<usize>) -> Encoded<'a> {
        let MsmJob { encoding, reduce, .. } = self.job;
        let (count, name) = (piece.len(), ("scalars", piece.start as u64));
        Encoded { encoding, reduce, count, name, source }
    }

    /// Hands a piece to `run`; gives the number after it, `None` where it has not come yet.
    fn absorb(
        &self,
        run: &mut dyn MsmRun,
        next: usize,
        engine: &dyn Engine,
        control: &Control,
    ) -> Result<Option<usize>> {
        let piece = self.piece(next, engine);
        let Some(source) = self.payload.part(self.bytes(&piece))? else { return Ok(None) };
        if !piece.is_empty() {
            let n = self.job.bases.len();
            let (vector, first) = (piece.start / n, piece.start % n);
            run.absorb(vector, first, &self.scalars(&source, &piece), control)?;
        }
        Ok(Some(piece.end))
    }

    /// A piece for the engine, and what follows on the last one.
    fn compute(
        &mut self,
        mut run: Box<dyn MsmRun>,
        next: usize,
        control: &Control,
    ) -> Result<Option<Sums>> {
        let host = self.host.clone();
        let end = self.absorb(run.as_mut(), next, host.engine.as_ref(), control)?;
        if end != Some(self.total()) {
            self.phase = Phase::Absorb { run, next: end.unwrap_or(next) };
            return Ok(None);
        }
        let (sums, executor) = run.finish()?;
        self.executor = executor;
        let (by, run) = match self.job.check {
            MsmCheck::None => return Ok(Some(sums)),
            MsmCheck::Full => (By::Oracle, host.oracle.msm(self.bases()?, self.job.batch)?),
            MsmCheck::Combination => {
                let factors = Combination::draw(self.job.batch)?;
                (By::Combination(factors), host.engine.msm(self.bases()?, 1)?)
            }
        };
        self.phase = Phase::Check { run, next: 0, sums, by };
        Ok(None)
    }

    /// A piece for whoever checks, and the verdict on the last one.
    fn check(
        &mut self,
        mut run: Box<dyn MsmRun>,
        next: usize,
        sums: Sums,
        by: By,
        control: &Control,
    ) -> Result<Option<Sums>> {
        let host = self.host.clone();
        let (end, all) = match &by {
            By::Oracle => {
                let end = self.absorb(run.as_mut(), next, host.oracle.as_ref(), control)?;
                (end.unwrap_or(next), self.total())
            }
            By::Combination(factors) => {
                let end = self.combine(run.as_mut(), next, factors, control)?;
                (end, self.job.bases.len())
            }
        };
        if end < all {
            self.phase = Phase::Check { run, next: end, sums, by };
            return Ok(None);
        }
        let (found, _) = run.finish()?;
        let right = match &by {
            By::Oracle => found == sums,
            By::Combination(factors) => {
                host.on_pool(sums.len() << 16, || factors.holds(&sums, &found))
            }
        };
        if right { Ok(Some(sums)) } else { Err(Error::Corrupt) }
    }

    /// Combines a piece of all vectors and hands it to `run`; gives the number after it.
    fn combine(
        &self,
        run: &mut dyn MsmRun,
        next: usize,
        factors: &Combination,
        control: &Control,
    ) -> Result<usize> {
        control.check()?;
        let n = self.job.bases.len();
        let piece = self.piece(next, self.host.engine.as_ref());
        let sources = (0..self.job.batch).map(|vector| {
            let piece = piece.start + vector * n..piece.end + vector * n;
            let source = self.payload.part(self.bytes(&piece))?;
            let source = source.ok_or_else(|| Error::Internal("scalars went away".into()))?;
            Ok((source, piece))
        });
        let sources = sources.collect::<Result<Vec<_>>>()?;
        let pieces: Vec<_> =
            sources.iter().map(|(source, piece)| self.scalars(source, piece)).collect();
        let work = piece.len() * self.job.batch * 32;
        let combined = self.host.on_pool(work, || factors.scalars(&pieces))?;
        let combined = layout::fr_as_bytes(&combined);
        if !piece.is_empty() {
            let scalars = Encoded::new(ScalarEncoding::Montgomery, piece.len(), &combined);
            run.absorb(0, piece.start, &scalars, control)?;
        }
        Ok(piece.end)
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

    fn span(&self, id: u64) -> Span {
        let (op, group, n) = ("msm", self.job.bases.group().name(), self.job.bases.len());
        let batch = self.job.batch;
        debug_span!("job", id, op, group, n, batch, queue_us = Empty, run_us = Empty)
    }

    fn ready(&self) -> bool {
        match &self.phase {
            Phase::Absorb { next, .. } => {
                let piece = self.piece(*next, self.host.engine.as_ref());
                self.payload.ready(self.bytes(&piece))
            }
            // All of the payload is there by the time of checks.
            Phase::Prepare | Phase::Check { .. } | Phase::Over => true,
        }
    }

    fn step(&mut self, control: &Control) -> Result<Option<MsmOutput>> {
        let sums = match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Over => return Err(Error::Internal("stepped after its end".into())),
            Phase::Prepare => {
                let bases = self.bases()?;
                let run = self.host.engine.msm(bases, self.job.batch)?;
                self.compute(run, 0, control)?
            }
            Phase::Absorb { run, next } => self.compute(run, next, control)?,
            Phase::Check { run, next, sums, by } => {
                let begun = Instant::now();
                let sums = self.check(run, next, sums, by, control)?;
                self.verify += begun.elapsed();
                sums
            }
        };
        Ok(sums.map(|sums| self.output(&sums)))
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

#[cfg(test)]
mod tests;
