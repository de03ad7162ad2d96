//! The tasks of a product of a sparse matrix and a vector, one per block: about equal numbers of
//! terms, whatever the lengths of rows.

use bytemuck::{Pod, Zeroable};

/// The most terms, and rows, of a task with several rows: what a block's shared memory holds.
const TILE: u32 = 512;
/// A row of more terms is a separate task: at least half of a block's threads have a term. A
/// thread sums a shorter one. Not measured.
const TILE_ROW_MAX: u32 = 64;
/// The most terms of a task with one row, 16 per thread. Longer rows are split into pieces. Not
/// measured.
const PIECE: u32 = 2048;

/// A task of `fr_sparse_products` or `fr_sparse_split_rows` (`kernels/ntt/sparse.cu`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct RowTask {
    /// The first term; of a row that is split, the sum of its first piece.
    first: u32,
    /// The number of terms or of pieces.
    count: u32,
    /// The first row; of a piece, the number of its sum.
    target: u32,
    /// The number of rows; 0 for a piece of a row.
    rows: u32,
}

/// All tasks for a matrix. They depend on its rows only, so they are listed once.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SparseTasks {
    /// Tiles, rows and pieces of rows.
    pub products: Vec<RowTask>,
    /// The rows that are split into pieces.
    pub split_rows: Vec<RowTask>,
    /// The number of pieces.
    pub pieces: usize,
}

/// Lists the tasks while rows are added, so that its caller can stop in between.
#[derive(Debug, Default)]
pub struct SparseTaskBuilder {
    tasks: SparseTasks,
    /// The tile that the next row may join.
    tile: RowTask,
    /// The number of rows so far.
    rows: u32,
    /// The number of their terms.
    terms: u32,
}

impl SparseTaskBuilder {
    /// `row_ends` has the index after the last term of each row, counted from the first row of all.
    pub fn add_rows(&mut self, row_ends: &[u32]) {
        for &end in row_ends {
            let row = self.rows;
            let first = self.terms;
            let count = end - self.terms;
            let is_long = count > TILE_ROW_MAX;
            if is_long || self.tile.count + count > TILE || self.tile.rows == TILE {
                self.tasks.add_tile(self.tile);
                self.tile = RowTask { first, count: 0, target: row, rows: 0 };
            }
            if is_long {
                self.tasks.add_row(RowTask { first, count, target: row, rows: 1 });
                self.tile = RowTask { first: end, count: 0, target: row + 1, rows: 0 };
            } else {
                self.tile.count += count;
                self.tile.rows += 1;
            }
            (self.rows, self.terms) = (row + 1, end);
        }
    }

    pub fn build(mut self) -> SparseTasks {
        self.tasks.add_tile(self.tile);
        self.tasks
    }
}

impl SparseTasks {
    fn add_tile(&mut self, tile: RowTask) {
        if tile.rows > 0 {
            self.products.push(tile);
        }
    }

    fn add_row(&mut self, row: RowTask) {
        if row.count <= PIECE {
            return self.products.push(row);
        }
        let before = self.pieces as u32;
        let count = row.count.div_ceil(PIECE);
        self.split_rows.push(RowTask { first: before, count, ..row });
        self.products.extend((0..count).map(|piece| {
            let done = piece * PIECE;
            let (first, count) = (row.first + done, PIECE.min(row.count - done));
            RowTask { first, count, target: before + piece, rows: 0 }
        }));
        self.pieces += count as usize;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tasks(row_ends: &[u32]) -> SparseTasks {
        let mut tasks = SparseTaskBuilder::default();
        tasks.add_rows(row_ends);
        tasks.build()
    }

    fn row_ends(lengths: &[u32]) -> Vec<u32> {
        let ends = lengths.iter().scan(0, |end, length| {
            *end += length;
            Some(*end)
        });
        ends.collect()
    }

    /// The sums of a task list over rows of these lengths, if every term is 1.
    fn lengths_of(tasks: &SparseTasks, lengths: &[u32]) -> Vec<u32> {
        let ends = row_ends(lengths);
        let mut sums = vec![u32::MAX; lengths.len()];
        let mut pieces = vec![0; tasks.pieces];
        for task in &tasks.products {
            let &RowTask { first, count, target, rows } = task;
            let rows = target as usize..(target + rows) as usize;
            match rows.len() {
                0 => {
                    assert!((1..=PIECE).contains(&count));
                    pieces[target as usize] = count;
                }
                1 => {
                    assert!(count <= PIECE && first + count == ends[rows.start]);
                    sums[rows.start] = count;
                }
                many => {
                    assert!(count <= TILE && many <= TILE as usize);
                    assert_eq!(lengths[rows.clone()].iter().sum::<u32>(), count);
                    assert_eq!(first + count, ends[rows.end - 1]);
                    sums[rows.clone()].copy_from_slice(&lengths[rows]);
                }
            }
        }
        for row in &tasks.split_rows {
            let of_row = &pieces[row.first as usize..][..row.count as usize];
            sums[row.target as usize] = of_row.iter().sum();
        }
        sums
    }

    #[test]
    fn every_term_of_every_row_is_in_one_task() {
        let cases: [&[u32]; 9] = [
            &[],
            &[0],
            &[1],
            &[0; 3 * TILE as usize + 1],
            &[3; 1000],
            &[TILE_ROW_MAX; 100],
            &[10 * PIECE + 1],
            &[0, PIECE + 1, 0, 0, PIECE, TILE_ROW_MAX + 1, 1, 2 * PIECE],
            &[1, TILE_ROW_MAX + 1, 2, TILE_ROW_MAX, TILE, TILE + 1, 0],
        ];
        for lengths in cases {
            let ends = row_ends(lengths);
            let tasks = tasks(&ends);
            let mut in_parts = SparseTaskBuilder::default();
            ends.chunks(3).for_each(|rows| in_parts.add_rows(rows));
            assert_eq!(in_parts.build(), tasks);
            assert_eq!(lengths_of(&tasks, lengths), lengths);
            let terms: u32 = tasks.products.iter().map(|task| task.count).sum();
            assert_eq!(terms, lengths.iter().sum::<u32>());
        }
    }

    #[test]
    fn tasks_are_few() {
        let rows = 1 << 20;
        let of = |lengths: &[u32]| tasks(&row_ends(lengths));
        let short = of(&[2; 1 << 20]);
        assert_eq!((short.products.len(), short.pieces), (rows * 2 / TILE as usize, 0));
        assert_eq!(of(&[0; 1 << 20]).products.len(), rows / TILE as usize);
        let one = of(&[1 << 22]);
        assert_eq!((one.products.len(), one.split_rows.len()), (2048, 1));
    }

    #[test]
    fn the_largest_numbers_of_terms_do_not_overflow() {
        let tasks = tasks(&[7, u32::MAX - 1, u32::MAX]);
        let last = tasks.products.last().unwrap();
        assert_eq!((last.first, last.count, last.target), (u32::MAX - 1, 1, 2));
        assert_eq!(tasks.pieces, (u32::MAX - 8).div_ceil(PIECE) as usize);
    }
}
