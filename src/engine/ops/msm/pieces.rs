//! MSMs of an input whose scalars are summed while later ones arrive.

use std::{
    mem,
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use super::sums::{CombinedSums, RowSums};
use crate::{
    curve::points::Bases,
    engines::{ComputedMsm, MsmNttEngine},
    error::{Error, Result},
    ops::host::{EncodedRows, HostArgument, PieceContext, PiecesDone, PiecesSpec, StepInPieces},
    program::VectorShape,
};

pub(super) struct MsmInPieces {
    input: VectorShape,
    is_checked: bool,
    engine: Arc<dyn MsmNttEngine>,
    phase: MsmPhase,
    verify_time: Duration,
}

enum MsmPhase {
    /// Not begun, or ended by an error.
    Idle,
    Sum(RowSums),
    Check(CombinedSums, ComputedMsm),
    /// Keeps the memory until the run is dropped, so that the caller need not wait for its release.
    Done {
        _sums: RowSums,
    },
}

impl MsmInPieces {
    pub fn new(spec: PiecesSpec) -> Self {
        let PiecesSpec { input, is_checked, engine } = spec;
        let phase = MsmPhase::Idle;
        let verify_time = Duration::ZERO;
        Self { input, is_checked, engine, phase, verify_time }
    }

    fn rows(&self) -> usize {
        self.input.rows() as usize
    }

    fn begin_check(&mut self, computed: ComputedMsm, bases: &Bases) -> Result<Option<PiecesDone>> {
        let check = CombinedSums::new(&*self.engine, bases, self.rows())?;
        self.phase = MsmPhase::Check(check, computed);
        Ok(None)
    }

    fn done(&self, ComputedMsm { sums, executor }: ComputedMsm) -> PiecesDone {
        PiecesDone { points: Some(sums), executor, verify_time: self.verify_time }
    }
}

impl StepInPieces for MsmInPieces {
    fn begin(&mut self, bases: Option<&Bases>) -> Result<()> {
        let bases = bases.ok_or_else(|| Error::Internal("the step's bases are missing".into()))?;
        self.phase = MsmPhase::Sum(RowSums::of_adjacent_rows(&*self.engine, bases, self.rows())?);
        Ok(())
    }

    fn next_elements(&self) -> Range<usize> {
        match &self.phase {
            MsmPhase::Sum(sums) => sums.next_elements(),
            // All have arrived before the check begins.
            MsmPhase::Check(..) | MsmPhase::Done { .. } | MsmPhase::Idle => 0..0,
        }
    }

    fn compute(&mut self, context: &PieceContext<'_>) -> Result<Option<PiecesDone>> {
        let bases = context.bases;
        let bases = bases.ok_or_else(|| Error::Internal("the step's bases are missing".into()))?;
        let (rows, length) = (self.rows(), self.input.length() as usize);
        let input = HostArgument::Encoded(EncodedRows { elements: context.input, rows, length });
        match mem::replace(&mut self.phase, MsmPhase::Idle) {
            MsmPhase::Idle | MsmPhase::Done { .. } => {
                Err(Error::Internal("the MSM is not in progress".into()))
            }
            MsmPhase::Sum(mut sums) => {
                let control = context.control;
                if sums.absorb_next(&input, control)? || !sums.is_almost_done(control)? {
                    self.phase = MsmPhase::Sum(sums);
                    return Ok(None);
                }
                let computed = sums.finish()?;
                if self.is_checked {
                    drop(sums);
                    return self.begin_check(computed, bases);
                }
                self.phase = MsmPhase::Done { _sums: sums };
                Ok(Some(self.done(computed)))
            }
            MsmPhase::Check(mut check, computed) => {
                let begun = Instant::now();
                let control = context.control;
                if check.absorb_next(&input, control)? || !check.is_almost_done(control)? {
                    self.phase = MsmPhase::Check(check, computed);
                    self.verify_time += begun.elapsed();
                    return Ok(None);
                }
                let is_right = check.verifies(&computed.sums, control)?;
                self.verify_time += begun.elapsed();
                if is_right { Ok(Some(self.done(computed))) } else { Err(Error::Corrupt) }
            }
        }
    }
}
