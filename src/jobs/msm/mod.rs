//! The MSM job: passes the scalars to the engine in pieces, checks the sums on request.

use std::{
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    ComputeHost, JobReport, JobWaker, JobWork, msm_check::RandomCombination, payload::JobPayload,
};
use crate::{
    buffer::{PayloadView, UploadBuffer},
    curve::{
        G1Affine, G2Affine, Group, layout,
        points::{
            self, BadElement, Bases, CurvePoint, MsmSums, PointEncoding, PointSlice, SumEncoding,
        },
        scalars::ScalarEncoding,
    },
    engine::{ComputedMsm, ElementNames, EncodedScalars, Engine, ExecutedBy, JobControl, MsmRun},
    error::{Error, FieldProblem, Result},
    verify::VerifyMode,
};
use bytes::Bytes;
use tracing::{Span, debug_span, field::Empty};

pub enum JobBases {
    Checked(Bases),
    /// Bases that the job must check.
    Inline {
        group: Group,
        encoding: PointEncoding,
        data: Bytes,
        count: usize,
    },
}

impl JobBases {
    fn group(&self) -> Group {
        match self {
            Self::Checked(bases) => bases.group(),
            Self::Inline { group, .. } => *group,
        }
    }

    pub fn count(&self) -> usize {
        match self {
            Self::Checked(bases) => bases.len(),
            Self::Inline { count, .. } => *count,
        }
    }
}

pub struct MsmJob {
    pub bases: JobBases,
    /// Number of scalar vectors, each as long as the bases, concatenated in the payload.
    pub batch: usize,
    pub encoding: ScalarEncoding,
    pub reduce: bool,
    pub result_encoding: SumEncoding,
    pub verify: VerifyMode,
}

impl MsmJob {
    /// Bytes of working memory in addition to the payload.
    pub fn scratch_bytes(&self, host: &ComputeHost) -> u64 {
        let (group, n) = (self.bases.group(), self.bases.count());
        let inline = match &self.bases {
            JobBases::Checked(_) => 0,
            JobBases::Inline { .. } => (n * group.affine_bytes()) as u64,
        };
        let result = (self.batch * (3 * group.coordinate_bytes())) as u64;
        let (engine, oracle) = (host.engine.as_ref(), host.oracle.as_ref());
        let run = match self.verify {
            VerifyMode::None => self.run_bytes(engine, 33),
            // The oracle runs after the engine.
            VerifyMode::Full => self.run_bytes(engine, 33).max(self.run_bytes(oracle, 33)),
            // 64 more bytes per scalar, for the combination.
            VerifyMode::Probabilistic => self.run_bytes(engine, 33 + 64),
        };
        run + inline + result
    }

    /// Bytes that a run of `engine` uses, with `scalar_bytes` per scalar of a piece.
    fn run_bytes(&self, engine: &dyn Engine, scalar_bytes: u64) -> u64 {
        let (group, n) = (self.bases.group(), self.bases.count());
        let piece = engine.msm_piece_len(group, n).clamp(1, n.max(1)) as u64;
        piece * scalar_bytes + engine.msm_scratch_bytes(group, n)
    }
}

pub struct MsmOutput {
    /// The encoded sums, concatenated.
    pub points: Vec<u8>,
    pub report: JobReport,
}

pub struct MsmWork {
    host: Arc<ComputeHost>,
    job: MsmJob,
    payload: JobPayload,
    phase: MsmPhase,
    executor: ExecutedBy,
    verify_time: Duration,
}

enum MsmPhase {
    /// Inline bases are still to be checked.
    Prepare,
    Absorb {
        run: Box<dyn MsmRun>,
        next_scalar: usize,
    },
    Check(MsmCheck),
    Failed,
}

struct MsmCheck {
    run: Box<dyn MsmRun>,
    next_scalar: usize,
    sums: MsmSums,
    /// The engine checks by an MSM of the combined scalars; `None`: the oracle repeats the job.
    factors: Option<RandomCombination>,
}

impl MsmWork {
    pub fn new(
        host: Arc<ComputeHost>,
        job: MsmJob,
        payload: Arc<UploadBuffer>,
        waker: JobWaker,
    ) -> Self {
        Self {
            host,
            job,
            payload: JobPayload::new(payload, waker),
            phase: MsmPhase::Prepare,
            executor: ExecutedBy::default(),
            verify_time: Duration::ZERO,
        }
    }

    fn bases(&mut self) -> Result<Bases> {
        let (group, encoding, data) = match &self.job.bases {
            JobBases::Checked(bases) => return Ok(bases.clone()),
            JobBases::Inline { group, encoding, data, .. } => (group, *encoding, data),
        };
        let decode = || match group {
            Group::G1 => decode_bases::<G1Affine>(encoding, data),
            Group::G2 => decode_bases::<G2Affine>(encoding, data),
        };
        // Decoding a point takes far longer than its bytes suggest.
        let bases = self.host.run_sized(data.len() << 8, decode);
        let bases = bases
            .map_err(|bad| Error::element("spec.bases.inline.data", bad.index, bad.problem))?;
        self.job.bases = JobBases::Checked(bases.clone());
        Ok(bases)
    }

    fn scalar_count(&self) -> usize {
        self.job.batch * self.job.bases.count()
    }

    /// The piece of one vector that begins with scalar `next`.
    fn piece(&self, next: usize, engine: &dyn Engine) -> Range<usize> {
        let n = self.job.bases.count();
        if n == 0 {
            return 0..0;
        }
        let remaining = n - next % n;
        let best_len = engine.msm_piece_len(self.job.bases.group(), n).max(1);
        // Equal pieces: two halves rather than a full piece and a small rest.
        let pieces = remaining.div_ceil(best_len);
        next..(next + remaining.div_ceil(pieces)).min(self.scalar_count())
    }

    fn payload_range(&self, piece: &Range<usize>) -> Range<u64> {
        let width = self.job.encoding.width() as u64;
        piece.start as u64 * width..piece.end as u64 * width
    }

    /// Scalars `piece`, indexed across all vectors; `source` holds exactly these.
    fn scalars<'a>(&self, source: &'a PayloadView<'a>, piece: &Range<usize>) -> EncodedScalars<'a> {
        let MsmJob { encoding, reduce, .. } = self.job;
        let names = ElementNames { field: "scalars", first: piece.start as u64 };
        EncodedScalars { encoding, reduce, count: piece.len(), names, source }
    }

    /// Passes a piece to `run` and returns the index after it; `None` if it has not arrived yet.
    fn absorb_piece(
        &self,
        run: &mut dyn MsmRun,
        next: usize,
        engine: &dyn Engine,
        control: &JobControl,
    ) -> Result<Option<usize>> {
        let piece = self.piece(next, engine);
        let Some(source) = self.payload.range(self.payload_range(&piece))? else { return Ok(None) };
        if !piece.is_empty() {
            let n = self.job.bases.count();
            let (vector, first) = (piece.start / n, piece.start % n);
            run.absorb(vector, first, &self.scalars(&source, &piece), control)?;
        }
        Ok(Some(piece.end))
    }

    /// Passes a piece to the engine. After the last piece, returns the sums or begins the check.
    fn compute(
        &mut self,
        mut run: Box<dyn MsmRun>,
        next: usize,
        control: &JobControl,
    ) -> Result<Option<MsmSums>> {
        let host = self.host.clone();
        let end = self.absorb_piece(run.as_mut(), next, host.engine.as_ref(), control)?;
        if end != Some(self.scalar_count()) {
            self.phase = MsmPhase::Absorb { run, next_scalar: end.unwrap_or(next) };
            return Ok(None);
        }
        let ComputedMsm { sums, executor } = run.finish()?;
        self.executor = executor;
        let (factors, run) = match self.job.verify {
            VerifyMode::None => return Ok(Some(sums)),
            VerifyMode::Full => (None, host.oracle.msm(self.bases()?, self.job.batch)?),
            VerifyMode::Probabilistic => {
                let factors = RandomCombination::draw(self.job.batch)?;
                (Some(factors), host.engine.msm(self.bases()?, 1)?)
            }
        };
        self.phase = MsmPhase::Check(MsmCheck { run, next_scalar: 0, sums, factors });
        Ok(None)
    }

    /// Passes a piece to the checking run. After the last piece, returns the sums if they match.
    fn check(&mut self, mut check: MsmCheck, control: &JobControl) -> Result<Option<MsmSums>> {
        let host = self.host.clone();
        let (run, next) = (check.run.as_mut(), check.next_scalar);
        let (end, scalar_count) = match &check.factors {
            None => {
                let end = self.absorb_piece(run, next, host.oracle.as_ref(), control)?;
                (end.unwrap_or(next), self.scalar_count())
            }
            Some(factors) => {
                (self.absorb_combination(run, next, factors, control)?, self.job.bases.count())
            }
        };
        if end < scalar_count {
            self.phase = MsmPhase::Check(MsmCheck { next_scalar: end, ..check });
            return Ok(None);
        }
        let MsmCheck { run, sums, factors, .. } = check;
        let check_sums = run.finish()?.sums;
        let is_correct = factors.map_or(check_sums == sums, |factors| {
            host.run_sized(sums.len() << 16, || factors.verifies(&sums, &check_sums))
        });
        if is_correct { Ok(Some(sums)) } else { Err(Error::Corrupt) }
    }

    /// Combines a piece of all vectors, passes it to `run` and returns the index after it.
    fn absorb_combination(
        &self,
        run: &mut dyn MsmRun,
        next: usize,
        factors: &RandomCombination,
        control: &JobControl,
    ) -> Result<usize> {
        control.check()?;
        let n = self.job.bases.count();
        let piece = self.piece(next, self.host.engine.as_ref());
        let sources = (0..self.job.batch).map(|vector| {
            let piece = piece.start + vector * n..piece.end + vector * n;
            let source = self.payload.range(self.payload_range(&piece))?;
            let source = source.ok_or_else(|| Error::Internal("scalars are missing".into()))?;
            Ok((source, piece))
        });
        let sources = sources.collect::<Result<Vec<_>>>()?;
        let pieces: Vec<_> =
            sources.iter().map(|(source, piece)| self.scalars(source, piece)).collect();
        let bytes = piece.len() * self.job.batch * 32;
        let combined = self.host.run_sized(bytes, || factors.scalars(&pieces))?;
        let combined = layout::fr_as_bytes(&combined);
        if !piece.is_empty() {
            let scalars = EncodedScalars::new(ScalarEncoding::Montgomery, piece.len(), &combined);
            run.absorb(0, piece.start, &scalars, control)?;
        }
        Ok(piece.end)
    }

    fn output(&self, sums: &MsmSums) -> MsmOutput {
        let encoding = self.job.result_encoding;
        let points = self.host.run_sized(sums.len() << 10, || points::encode_sums(encoding, sums));
        let lg_n = self.job.bases.count().checked_ilog2().unwrap_or(0);
        let (verify, verify_time) = (self.job.verify, self.verify_time);
        let report = JobReport { lg_n, verify, verify_time, executor: self.executor.clone() };
        MsmOutput { points, report }
    }
}

fn decode_bases<A: CurvePoint>(encoding: PointEncoding, data: &[u8]) -> Result<Bases, BadElement> {
    points::decode::<A>(encoding, data)
        .map(|points| A::into_bases(PointSlice::new(Arc::new(points))))
}

impl JobWork for MsmWork {
    type Output = MsmOutput;

    fn span(&self, id: u64) -> Span {
        let (op, group, n) = ("msm", self.job.bases.group().name(), self.job.bases.count());
        let batch = self.job.batch;
        debug_span!("job", id, op, group, n, batch, queue_us = Empty, run_us = Empty)
    }

    fn is_ready(&self) -> bool {
        match &self.phase {
            MsmPhase::Absorb { next_scalar, .. } => {
                let piece = self.piece(*next_scalar, self.host.engine.as_ref());
                self.payload.is_ready(self.payload_range(&piece))
            }
            // The whole payload has arrived before the check begins.
            MsmPhase::Prepare | MsmPhase::Check(_) | MsmPhase::Failed => true,
        }
    }

    fn step(&mut self, control: &JobControl) -> Result<Option<MsmOutput>> {
        let sums = match std::mem::replace(&mut self.phase, MsmPhase::Failed) {
            MsmPhase::Failed => {
                return Err(Error::Internal("the job was stepped after its end".into()));
            }
            MsmPhase::Prepare => {
                let bases = self.bases()?;
                let run = self.host.engine.msm(bases, self.job.batch)?;
                self.compute(run, 0, control)?
            }
            MsmPhase::Absorb { run, next_scalar } => self.compute(run, next_scalar, control)?,
            MsmPhase::Check(check) => {
                let begun = Instant::now();
                let sums = self.check(check, control)?;
                self.verify_time += begun.elapsed();
                sums
            }
        };
        Ok(sums.map(|sums| self.output(&sums)))
    }
}

/// Checks that a payload of `count` elements holds `batch` vectors of `n`.
///
/// Errors: `Invalid` if it does not, or if the product overflows.
pub fn check_count(field: &'static str, count: u64, batch: usize, n: u64) -> Result<()> {
    let expected = (batch as u64)
        .checked_mul(n)
        .ok_or(Error::field(field, FieldProblem::TooLarge { max: u64::MAX }))?;
    if count != expected {
        return Err(Error::field(field, FieldProblem::Length { expected, got: count }));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
