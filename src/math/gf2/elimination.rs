//! The elimination of all columns, panel by panel.

use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;
use zeroize::Zeroizing;

use super::{
    line::{LINE_COLUMNS, LINE_WORDS, Line},
    matrix::BitMatrix,
    problem::EliminationError,
    step::{EliminationStep, Promotion, StepTables, TASK_ROWS},
    strips::Strips,
    word_scan::{Unpivoted, WordPivots},
};

/// How far an elimination is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EliminationProgress {
    /// The number of columns that are eliminated.
    pub columns: u64,
    /// The number of all columns.
    pub of: u64,
}

/// Called before each panel, and by each thread before it works on a strip; false ends the
/// elimination.
pub type Watch<'a> = &'a (dyn Fn(EliminationProgress) -> bool + Sync);

/// Which rows are reduced at a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReducedRows {
    /// Those that are not pivots.
    Remaining,
    /// All of them but the pivot.
    All,
}

/// A matrix to eliminate.
pub struct MatrixElimination<'a> {
    /// Pivots with distinct leading columns.
    pub given: &'a BitMatrix,
    /// For each column, the row of the given pivot that leads there.
    pub given_at: &'a [Option<u32>],
    /// Becomes the reduced rows: in their order if only the remaining rows are reduced, else the
    /// pivots by leading column, then zeros.
    pub rows: &'a mut BitMatrix,
    /// Which rows are reduced.
    pub reduced: ReducedRows,
}

/// For each row, its leading column once it is a pivot.
pub type LeadingColumns = Vec<Option<u32>>;

impl MatrixElimination<'_> {
    /// Eliminates on the current rayon pool, in memory of the size of the rows in addition to them.
    ///
    /// Errors: `Stopped`, which leaves the rows as they were.
    pub fn run_on_host(&mut self, watch: Watch<'_>) -> Result<LeadingColumns, EliminationError> {
        let Self { given, given_at, rows, reduced } = self;
        let mut elimination = Elimination::new(given, given_at, rows, *reduced);
        elimination.run(watch)?;
        match reduced {
            ReducedRows::Remaining => elimination.rows.write(rows, Some),
            ReducedRows::All => {
                let order = pivot_order(&elimination.leading);
                elimination.rows.write(rows, |at| order.get(at).copied());
            }
        }
        Ok(elimination.leading)
    }
}

/// The rows that are pivots, by leading column.
pub fn pivot_order(leading: &[Option<u32>]) -> Vec<usize> {
    let leading = leading.iter().enumerate();
    let mut pivots: Vec<_> =
        leading.filter_map(|(row, leading)| leading.map(|column| (column, row))).collect();
    pivots.sort_unstable();
    pivots.into_iter().map(|(_, row)| row).collect()
}

/// Rows that are being reduced.
pub struct Elimination<'g> {
    /// The given pivots.
    given: &'g BitMatrix,
    /// For each column, the row of the given pivot that leads there.
    given_at: &'g [Option<u32>],
    reduced: ReducedRows,
    columns: usize,
    pub rows: Strips,
    /// For each row, its leading column once it is a pivot.
    pub leading: LeadingColumns,
}

impl<'g> Elimination<'g> {
    /// `given_at` has an element for each column of `rows`.
    pub fn new(
        given: &'g BitMatrix,
        given_at: &'g [Option<u32>],
        rows: &BitMatrix,
        reduced: ReducedRows,
    ) -> Self {
        let leading = vec![None; rows.rows()];
        Self { given, given_at, reduced, columns: rows.columns(), rows: Strips::new(rows), leading }
    }

    /// Bytes of memory that the elimination of a matrix takes, in addition to the matrix and to the
    /// given pivots.
    pub fn bytes(rows: u64, columns: u64) -> u64 {
        let strips = rows * columns.div_ceil(LINE_COLUMNS as u64) * size_of::<Line>() as u64;
        // The coefficients of a panel's words, the leading column, and what is found of it.
        let per_row = 8 * LINE_WORDS as u64 + 32;
        // A thread that waits for others may begin another strip, with other tables.
        let tables = (2 * rayon::current_num_threads() as u64 + 1) * StepTables::BYTES;
        strips + rows * per_row + columns * 16 + tables
    }

    /// Runs in parallel on the current rayon pool.
    ///
    /// Errors: `Stopped`.
    pub fn run(&mut self, watch: Watch<'_>) -> Result<(), EliminationError> {
        let of = self.columns as u64;
        let mut steps = Vec::with_capacity(LINE_WORDS);
        let mut tables = StepTables::new();
        for strip in 0..self.rows.0.len() {
            let progress = EliminationProgress { columns: (strip * LINE_COLUMNS) as u64, of };
            if !watch(progress) {
                return Err(EliminationError::Stopped);
            }
            let all_are_pivots = self.leading.iter().all(Option::is_some);
            if all_are_pivots && self.reduced == ReducedRows::Remaining {
                break;
            }
            steps.clear();
            for word in 0..LINE_WORDS {
                let first = strip * LINE_COLUMNS + word * 64;
                if first >= self.columns {
                    break;
                }
                let step = self.scan(strip, word, first);
                step.apply(self.given, strip, &mut self.rows.0[strip], &mut tables);
                steps.push(step);
            }
            self.apply_to_later(strip, &steps, || watch(progress))?;
        }
        watch(EliminationProgress { columns: of, of });
        Ok(())
    }

    /// Runs the steps of a panel in the strips after it.
    fn apply_to_later(
        &mut self,
        strip: usize,
        steps: &[EliminationStep],
        goes_on: impl Fn() -> bool + Sync,
    ) -> Result<(), EliminationError> {
        let given = self.given;
        let stopped = AtomicBool::new(false);
        let later = self.rows.0.par_iter_mut().enumerate().skip(strip + 1);
        later.for_each_init(StepTables::new, |tables, (at, lines)| {
            if stopped.load(Ordering::Relaxed) || !goes_on() {
                return stopped.store(true, Ordering::Relaxed);
            }
            for step in steps {
                step.apply(given, at, lines, tables);
            }
        });
        if stopped.into_inner() { Err(EliminationError::Stopped) } else { Ok(()) }
    }

    /// Finds what the elimination of a word of columns, the first of which is `first`, adds to each
    /// row.
    fn scan(&mut self, strip: usize, word: usize, first: usize) -> EliminationStep {
        let columns = (self.columns - first).min(64);
        let (given, words) = self.given_in(first, columns);
        let mut pivots = WordPivots::new(Unpivoted::Stop);
        let present = given.iter().fold(0, |present, (column, _)| present | 1 << column);
        pivots.replace(present, &words);

        let lines = &self.rows.0[strip];
        let leading = &mut self.leading;
        let all = u64::MAX >> (64 - columns);
        let mut coefficients = Zeroizing::new(vec![0; lines.len()]);
        let mut promotions = Vec::new();
        let mut row = 0;
        while row < lines.len() && pivots.present() != all {
            if leading[row].is_none() {
                let reduced = pivots.reduce(lines[row].0[word]);
                if let Some(column) = reduced.stopped {
                    pivots.insert(reduced.rest);
                    leading[row] = Some((first + column) as u32);
                    promotions.push(Promotion { row, column, pivots: reduced.pivots });
                } else {
                    coefficients[row] = reduced.pivots;
                }
            }
            row += 1;
        }
        // If all columns have a pivot, rows no longer depend on each other.
        scan_independent(
            (&lines[row..], &leading[row..], &mut coefficients[row..]),
            |line, leading| leading.is_none().then(|| pivots.reduce(line.0[word]).pivots),
        );
        if self.reduced == ReducedRows::All {
            let mut all_pivots = WordPivots::new(Unpivoted::Skip);
            all_pivots.replace(pivots.present(), pivots.words());
            scan_independent((lines, leading, &mut coefficients), |line, leading| {
                let leading = leading.as_ref().map(|leading| *leading as usize)?;
                // A row that has just become a pivot is changed only after its leading column.
                let word = match leading.checked_sub(first) {
                    Some(column) => pivots.words()[column] & (u64::MAX << column << 1),
                    None => line.0[word],
                };
                Some(all_pivots.reduce(word).pivots)
            });
        }
        EliminationStep { given, promotions, coefficients }
    }

    /// The given pivots that lead in a word of columns: their column in it and their row, and their
    /// words by column.
    fn given_in(&self, first: usize, columns: usize) -> (Vec<(usize, usize)>, [u64; 64]) {
        let mut words = [0; 64];
        let mut given = Vec::new();
        for (column, row) in self.given_at[first..][..columns].iter().enumerate() {
            if let Some(row) = *row {
                words[column] = self.given.row(row as usize)[first / 64];
                given.push((column, row as usize));
            }
        }
        (given, words)
    }
}

/// Sets the coefficients of the rows for which `find` has some.
fn scan_independent(
    (lines, leading, coefficients): (&[Line], &[Option<u32>], &mut [u64]),
    find: impl Fn(&Line, &Option<u32>) -> Option<u64> + Sync,
) {
    let rows = lines.par_iter().zip(leading).zip(coefficients).with_min_len(TASK_ROWS);
    rows.for_each(|((line, leading), coefficients)| {
        if let Some(pivots) = find(line, leading) {
            *coefficients = pivots;
        }
    });
}
