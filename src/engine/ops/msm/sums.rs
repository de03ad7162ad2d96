//! MSMs whose rows are passed to an engine piece by piece, and their check.

use std::ops::Range;

use crate::{
    curve::{
        Group, layout,
        points::{Bases, MsmSums},
        scalars::ScalarEncoding,
    },
    engines::{ComputedMsm, EncodedScalars, EngineModel, JobControl, MsmNttEngine, MsmRun},
    error::Result,
    ops::host::HostArgument,
    verify::RandomCombination,
};

/// An MSM in progress: the rows of its input are passed to an engine piece by piece.
pub(super) struct RowSums {
    run: Box<dyn MsmRun>,
    pieces: RowPieces,
    /// The number of rows passed at once. Above 1, only whole rows are passed.
    rows_at_once: usize,
    /// The next element, numbered across all rows.
    next: usize,
    rows: usize,
}

/// The check of an MSM: one more, of a random combination of the rows.
pub(super) struct CombinedSums {
    factors: RandomCombination,
    run: Box<dyn MsmRun>,
    pieces: RowPieces,
    next: usize,
}

/// How rows are divided.
#[derive(Clone, Copy)]
struct RowPieces {
    row_length: usize,
    piece: usize,
}

impl RowSums {
    pub fn new(engine: &dyn MsmNttEngine, bases: &Bases, rows: usize) -> Result<Self> {
        let run = engine.msm(bases.clone(), rows)?;
        let pieces = RowPieces::new(engine, bases);
        Ok(Self { run, pieces, rows_at_once: 1, next: 0, rows })
    }

    /// Like [`Self::new`], for an input whose rows are adjacent. The engine gets several short ones
    /// at once if it can, since each call costs it a copy.
    pub fn of_adjacent_rows(engine: &dyn MsmNttEngine, bases: &Bases, rows: usize) -> Result<Self> {
        let mut sums = Self::new(engine, bases, rows)?;
        if sums.run.absorbs_adjacent_vectors() && !bases.is_empty() {
            let piece = engine.msm_piece_len(bases.group(), rows.saturating_mul(bases.len()));
            sums.rows_at_once = (piece / bases.len()).max(1);
        }
        Ok(sums)
    }

    /// The elements of the next piece; empty if there is none.
    pub fn next_elements(&self) -> Range<usize> {
        if self.rows_at_once > 1 {
            let all = self.rows * self.pieces.row_length;
            return self.next..all.min(self.next + self.rows_at_once * self.pieces.row_length);
        }
        let Range { start, end } = self.pieces.of_row(self.next % self.pieces.row_length.max(1));
        match self.next < self.rows * self.pieces.row_length {
            true => self.next..self.next + (end - start),
            false => self.next..self.next,
        }
    }

    /// Passes the next piece. False if it was the last one.
    pub fn absorb_next(&mut self, input: &HostArgument<'_>, control: &JobControl) -> Result<bool> {
        let elements = self.next_elements();
        let row_length = self.pieces.row_length;
        if !elements.is_empty() {
            let row = elements.start / row_length;
            let first = elements.start % row_length;
            let scalars = input.range(row, first..first + elements.len())?;
            self.run.absorb(row, first, &scalars.scalars(), control)?;
        }
        self.next = elements.end;
        Ok(self.next < self.rows * row_length)
    }

    /// Like [`MsmRun::is_almost_done`].
    pub fn is_almost_done(&mut self, control: &JobControl) -> Result<bool> {
        self.run.is_almost_done(control)
    }

    /// The run that has all elements.
    pub fn into_run(self) -> Box<dyn MsmRun> {
        self.run
    }

    /// Keeps its memory until it is dropped.
    pub fn finish(&mut self) -> Result<ComputedMsm> {
        self.run.finish()
    }
}

impl CombinedSums {
    pub fn new(engine: &dyn MsmNttEngine, bases: &Bases, rows: usize) -> Result<Self> {
        let factors = RandomCombination::draw(rows)?;
        let run = engine.msm(bases.clone(), 1)?;
        let pieces = RowPieces::new(engine, bases);
        Ok(Self { factors, run, pieces, next: 0 })
    }

    /// Combines the next piece of all rows and passes it. False if it was the last one.
    pub fn absorb_next(&mut self, input: &HostArgument<'_>, control: &JobControl) -> Result<bool> {
        control.check()?;
        let piece = self.pieces.of_row(self.next);
        if !piece.is_empty() {
            let rows = (0..input.row_count()).map(|row| input.range(row, piece.clone()));
            let rows: Vec<_> = rows.collect::<Result<_>>()?;
            let scalars: Vec<_> = rows.iter().map(|row| row.scalars()).collect();
            let combined = self.factors.scalars(&scalars, control)?;
            let combined = layout::fr_as_bytes(&combined);
            let scalars = EncodedScalars::new(ScalarEncoding::Montgomery, piece.len(), &combined);
            self.run.absorb(0, piece.start, &scalars, control)?;
        }
        self.next = piece.end;
        Ok(self.next < self.pieces.row_length)
    }

    /// Like [`MsmRun::is_almost_done`].
    pub fn is_almost_done(&mut self, control: &JobControl) -> Result<bool> {
        self.run.is_almost_done(control)
    }

    /// The factors of the rows, and the run that has their whole combination.
    pub fn into_run(self) -> (RandomCombination, Box<dyn MsmRun>) {
        (self.factors, self.run)
    }

    /// Whether `value` is right.
    pub fn verifies(mut self, value: &MsmSums, control: &JobControl) -> Result<bool> {
        // Sums over wrong bases agree with each other.
        let is_right = self.run.has_right_bases(control)?
            && self.factors.verifies(value, &self.run.finish()?.sums, control)?;
        if !is_right {
            self.run.evict_bases();
        }
        Ok(is_right)
    }
}

impl RowPieces {
    fn new(engine: &dyn MsmNttEngine, bases: &Bases) -> Self {
        let row_length = bases.len();
        let best = engine.msm_piece_len(bases.group(), row_length).max(1);
        // Equal pieces: two halves rather than a full piece and a small rest.
        let piece = row_length.div_ceil(row_length.div_ceil(best).max(1)).max(1);
        Self { row_length, piece }
    }

    /// The piece of a row that begins with element `first`.
    fn of_row(self, first: usize) -> Range<usize> {
        first..(first + self.piece).min(self.row_length)
    }
}

/// Bytes that an MSM over `n` bases takes on `engine`.
pub(super) fn scratch_bytes(
    group: Group,
    n: usize,
    engine: &dyn EngineModel,
    is_checked: bool,
) -> u64 {
    let piece = engine.msm_piece_len(group, n).clamp(1, n.max(1)) as u64;
    // A scalar and its sign; for the combination, a decoded scalar and a sum.
    let scalar_bytes = if is_checked { 33 + 64 } else { 33 };
    piece * scalar_bytes + engine.msm_scratch_bytes(group, n)
}
