//! The MSM job: passes the scalars to the engine in pieces, checks the sums on request.

mod spec;

pub use spec::{JobBases, MsmJob, MsmSpec, UncheckedBases, check_count};

use std::{
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    ComputeHost, JobReport, JobWaker, JobWork,
    msm_payload::MsmPayload,
    payload::JobPayload,
    waiting_msms::{BatchedMsm, PickedMsm, WaitingMsm, may_share},
};
use crate::{
    buffer::UploadBuffer,
    curve::{
        G1Affine, G2Affine, Group, layout,
        points::{self, BadElement, Bases, CurvePoint, MsmSums, PointSlice},
        scalars::ScalarEncoding,
    },
    engine::{ComputedMsm, EncodedScalars, Engine, ExecutedBy, JobControl, MsmRun},
    error::{Error, Result},
    verify::{RandomCombination, Verification},
};
use tracing::{Span, debug_span, field::Empty};

pub struct MsmOutput {
    /// The encoded sums, concatenated.
    pub points: Vec<u8>,
    pub report: JobReport,
    /// The number of jobs computed in one batch with this one, itself included.
    pub batch_jobs: usize,
    /// How long that batch took on another job's worker; zero if this job's worker computed it.
    pub computed_elsewhere: Duration,
}

pub struct MsmWork {
    host: Arc<ComputeHost>,
    job: MsmJob,
    payload: JobPayload,
    scalars: MsmPayload,
    phase: MsmPhase,
    executor: ExecutedBy,
    verify_time: Duration,
    batch_jobs: usize,
    computed_elsewhere: Duration,
}

enum MsmPhase {
    /// May be computed by another job.
    Waiting(WaitingMsm),
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
        let (encoding, reduce) = (job.scalar_encoding, job.spec.reduce);
        let scalars = MsmPayload { upload: payload.clone(), encoding, reduce };
        let (all, vectors) = (&host.waiting_msms, job.spec.batch);
        let phase = match &job.bases {
            JobBases::Checked(bases) if may_share(&*host.engine, bases.len(), vectors) => {
                let (bases, scalars) = (bases.clone(), scalars.clone());
                MsmPhase::Waiting(WaitingMsm::new(all, bases, scalars, vectors, waker.clone()))
            }
            _ => MsmPhase::Prepare,
        };
        Self {
            host,
            job,
            payload: JobPayload::new(payload, waker),
            scalars,
            phase,
            executor: ExecutedBy::default(),
            verify_time: Duration::ZERO,
            batch_jobs: 1,
            computed_elsewhere: Duration::ZERO,
        }
    }

    fn bases(&mut self) -> Result<Bases> {
        let unchecked = match &self.job.bases {
            JobBases::Checked(bases) => return Ok(bases.clone()),
            JobBases::Unchecked(bases) => bases,
        };
        let decode = || match self.job.spec.group {
            Group::G1 => decode_bases::<G1Affine>(unchecked),
            Group::G2 => decode_bases::<G2Affine>(unchecked),
        };
        // Decoding a point takes far longer than its bytes suggest.
        let bases = self.host.run_sized(unchecked.data.len() << 8, decode);
        let bases = bases
            .map_err(|bad| Error::element("spec.bases.inline.data", bad.index, bad.problem))?;
        self.job.bases = JobBases::Checked(bases.clone());
        Ok(bases)
    }

    fn scalar_count(&self) -> usize {
        self.job.spec.batch * self.job.bases.count()
    }

    /// The piece of one vector that begins with scalar `next`.
    fn piece(&self, next: usize, engine: &dyn Engine) -> Range<usize> {
        let n = self.job.bases.count();
        if n == 0 {
            return 0..0;
        }
        let remaining = n - next % n;
        let best_len = engine.msm_piece_len(self.job.spec.group, n).max(1);
        // Equal pieces: two halves rather than a full piece and a small rest.
        let pieces = remaining.div_ceil(best_len);
        next..(next + remaining.div_ceil(pieces)).min(self.scalar_count())
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
        let Some(source) = self.payload.range(self.scalars.byte_range(&piece))? else {
            return Ok(None);
        };
        if !piece.is_empty() {
            let n = self.job.bases.count();
            let (vector, first) = (piece.start / n, piece.start % n);
            run.absorb(vector, first, &self.scalars.scalars(&source, &piece), control)?;
        }
        Ok(Some(piece.end))
    }

    /// Computes the job with others that wait, or takes its sums from another job's batch.
    fn pick(&mut self, waiting: WaitingMsm, control: &JobControl) -> Result<Option<MsmSums>> {
        match waiting.pick(&*self.host.engine) {
            PickedMsm::Taken => {
                self.phase = MsmPhase::Waiting(waiting);
                Ok(None)
            }
            PickedMsm::Computed(BatchedMsm { computed, jobs, elsewhere }) => {
                (self.batch_jobs, self.computed_elsewhere) = (jobs, elsewhere);
                self.begin_check(computed)
            }
            PickedMsm::Alone => self.compute_alone(control),
        }
    }

    fn compute_alone(&mut self, control: &JobControl) -> Result<Option<MsmSums>> {
        let bases = self.bases()?;
        let run = self.host.engine.msm(bases, self.job.spec.batch)?;
        self.compute(run, 0, control)
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
        let computed = run.finish()?;
        self.begin_check(computed)
    }

    /// Returns the sums, or begins their check if the request asks for it.
    fn begin_check(&mut self, computed: ComputedMsm) -> Result<Option<MsmSums>> {
        let host = self.host.clone();
        let ComputedMsm { sums, executor } = computed;
        self.executor = executor;
        let (factors, run) = match self.job.spec.verify {
            Verification::None => return Ok(Some(sums)),
            Verification::Full => (None, host.oracle.msm(self.bases()?, self.job.spec.batch)?),
            Verification::Probabilistic => {
                let factors = RandomCombination::draw(self.job.spec.batch)?;
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
        let sources = (0..self.job.spec.batch).map(|vector| {
            let piece = piece.start + vector * n..piece.end + vector * n;
            let source = self.payload.range(self.scalars.byte_range(&piece))?;
            let source = source.ok_or_else(|| Error::Internal("scalars are missing".into()))?;
            Ok((source, piece))
        });
        let sources = sources.collect::<Result<Vec<_>>>()?;
        let pieces: Vec<_> =
            sources.iter().map(|(source, piece)| self.scalars.scalars(source, piece)).collect();
        let bytes = piece.len() * self.job.spec.batch * 32;
        let combined = self.host.run_sized(bytes, || factors.scalars(&pieces))?;
        let combined = layout::fr_as_bytes(&combined);
        if !piece.is_empty() {
            let scalars = EncodedScalars::new(ScalarEncoding::Montgomery, piece.len(), &combined);
            run.absorb(0, piece.start, &scalars, control)?;
        }
        Ok(piece.end)
    }

    fn output(&self, sums: &MsmSums) -> MsmOutput {
        let encoding = self.job.spec.result_encoding;
        let points = self.host.run_sized(sums.len() << 10, || points::encode_sums(encoding, sums));
        let lg_n = self.job.bases.count().checked_ilog2().unwrap_or(0);
        let (verify, verify_time) = (self.job.spec.verify, self.verify_time);
        let report = JobReport { lg_n, verify, verify_time, executor: self.executor.clone() };
        let &Self { batch_jobs, computed_elsewhere, .. } = self;
        MsmOutput { points, report, batch_jobs, computed_elsewhere }
    }
}

fn decode_bases<A: CurvePoint>(bases: &UncheckedBases) -> Result<Bases, BadElement> {
    points::decode::<A>(bases.encoding, &bases.data)
        .map(|points| A::into_bases(PointSlice::new(Arc::new(points))))
}

impl JobWork for MsmWork {
    type Output = MsmOutput;

    fn span(&self, id: u64) -> Span {
        let (op, group, n) = ("msm", self.job.spec.group.name(), self.job.bases.count());
        let batch = self.job.spec.batch;
        debug_span!("job", id, op, group, n, batch, queue_us = Empty, run_us = Empty)
    }

    fn is_ready(&self) -> bool {
        match &self.phase {
            MsmPhase::Waiting(waiting) => {
                let all = self.scalars.byte_range(&(0..self.scalar_count()));
                waiting.is_ready() && self.payload.is_ready(all)
            }
            MsmPhase::Absorb { next_scalar, .. } => {
                let piece = self.piece(*next_scalar, self.host.engine.as_ref());
                self.payload.is_ready(self.scalars.byte_range(&piece))
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
            MsmPhase::Waiting(waiting) => self.pick(waiting, control)?,
            MsmPhase::Prepare => self.compute_alone(control)?,
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

#[cfg(test)]
mod tests;
