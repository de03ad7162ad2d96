//! What the elimination of one word of columns adds to each row, in any strip.

use rayon::prelude::*;
use zeroize::Zeroizing;

use super::{
    line::{ByteTables, Line, NibbleTables},
    matrix::BitMatrix,
    strips,
    word_scan::columns,
};

/// Rows of a task: the tables stay in the processor's second cache, the rows pass through it.
pub const TASK_ROWS: usize = 1 << 12;

/// From this number of rows on, tables of eight pivots are worth their time: filling them takes
/// 2048 additions instead of 256, and then each row takes 8 instead of 16.
const BYTE_TABLES_MIN: usize = 224;

/// A row that becomes a pivot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promotion {
    pub row: usize,
    /// The leading column, from 0 to 63 in the word.
    pub column: usize,
    /// The pivots to add before it is a pivot, by column. They are given, or promoted earlier.
    pub pivots: u64,
}

/// The elimination of one word of columns.
pub struct EliminationStep {
    /// The given pivots: column in the word, and row of their matrix.
    pub given: Vec<(usize, usize)>,
    /// In the order of the rows.
    pub promotions: Vec<Promotion>,
    /// The pivots to add to each row, by column, once all rows that become pivots are reduced.
    pub coefficients: Zeroizing<Vec<u64>>,
}

/// Memory of a thread that runs steps.
pub struct StepTables {
    bytes: ByteTables,
    nibbles: NibbleTables,
}

impl StepTables {
    pub const BYTES: u64 = (ByteTables::BYTES + NibbleTables::BYTES) as u64;

    pub fn new() -> Self {
        Self { bytes: ByteTables::new(), nibbles: NibbleTables::new() }
    }
}

impl EliminationStep {
    /// Adds pivots to the lines of all rows in a strip. Runs in parallel on the current rayon pool.
    pub fn apply(
        &self,
        given: &BitMatrix,
        strip: usize,
        lines: &mut [Line],
        tables: &mut StepTables,
    ) {
        let mut pivots = [Line::ZERO; 64];
        for &(column, row) in &self.given {
            pivots[column] = strips::line(given, row, strip);
        }
        for promotion in &self.promotions {
            let line = &mut lines[promotion.row];
            for column in columns(promotion.pivots) {
                *line ^= &pivots[column];
            }
            pivots[promotion.column] = *line;
        }
        let readers = self.coefficients.iter().filter(|pivots| **pivots != 0).count();
        match readers {
            0 => {}
            1..BYTE_TABLES_MIN => {
                tables.nibbles.fill(&pivots);
                self.for_each_row(lines, |line, pivots| tables.nibbles.add(line, pivots));
            }
            _ => {
                tables.bytes.fill(&pivots);
                self.for_each_row(lines, |line, pivots| tables.bytes.add(line, pivots));
            }
        }
    }

    fn for_each_row(&self, lines: &mut [Line], add: impl Fn(&mut Line, u64) + Sync) {
        let tasks = lines.par_chunks_mut(TASK_ROWS).zip(self.coefficients.par_chunks(TASK_ROWS));
        tasks.for_each(|(lines, coefficients)| {
            for (line, pivots) in lines.iter_mut().zip(coefficients) {
                if *pivots != 0 {
                    add(line, *pivots);
                }
            }
        });
    }
}
