//! Operations compared with the oracle.

use std::sync::atomic::{AtomicU64, Ordering};

use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};

use super::oracle::{self, BoolRows, matrix_of, rows_of};
use crate::gf2::{BadPivot, BitMatrix, EliminationError, echelon, rank, reduce};

/// Around the words and the panels of an elimination.
const WIDTHS: [usize; 14] = [0, 1, 2, 63, 64, 65, 127, 128, 200, 511, 512, 513, 577, 1100];

fn random(rows: usize, columns: usize, density: f64, random: &mut StdRng) -> BoolRows {
    (0..rows).map(|_| (0..columns).map(|_| random.random_bool(density)).collect()).collect()
}

/// BoolRows with distinct leading columns, in any order.
fn random_pivots(columns: usize, share: f64, density: f64, random: &mut StdRng) -> BoolRows {
    let mut pivots = BoolRows::new();
    for leading in 0..columns {
        if random.random_bool(share) {
            let bit = |column| column == leading || column > leading && random.random_bool(density);
            pivots.push((0..columns).map(bit).collect());
        }
    }
    pivots.shuffle(random);
    pivots
}

fn check(pivots: &BoolRows, rows: &BoolRows, columns: usize) {
    let (expected, expected_promoted) = oracle::reduce(pivots, rows);
    let (pivot_matrix, matrix) = (matrix_of(pivots, columns), matrix_of(rows, columns));
    let reduction = reduce(&pivot_matrix, matrix.clone(), &|_| true).unwrap();
    assert_eq!(reduction.promoted, expected_promoted);
    assert_eq!(reduction.rows, matrix_of(&expected, columns));
    let all: BoolRows = pivots.iter().chain(rows).cloned().collect();
    let (_, expected_rank) = oracle::echelon(&all, columns);
    assert_eq!(reduction.rank, expected_rank as u64);
    // Pivots and reduced rows span what pivots and rows span.
    let reduced: BoolRows = pivots.iter().chain(&expected).cloned().collect();
    assert_eq!(oracle::echelon(&reduced, columns).0, oracle::echelon(&all, columns).0);

    let (expected, expected_rank) = oracle::echelon(rows, columns);
    let form = echelon(matrix.clone(), &|_| true).unwrap();
    assert_eq!(rows_of(&form.matrix), expected);
    assert_eq!(form.leading.len(), expected_rank);
    for (row, leading) in form.leading.iter().enumerate() {
        assert_eq!(form.matrix.leading_column(row), Some(*leading as usize));
    }
    assert_eq!(rank(&matrix, &|_| true).unwrap(), expected_rank as u64);
}

#[test]
fn random_and_sparse_matrices_agree_with_the_oracle() {
    let mut rng = StdRng::seed_from_u64(1);
    for columns in WIDTHS {
        for (rows, density, share) in
            [(0, 0.5, 0.5), (1, 0.5, 0.9), (70, 0.02, 0.0), (90, 0.5, 0.3), (300, 0.1, 0.95)]
        {
            let pivots = random_pivots(columns, share, density, &mut rng);
            check(&pivots, &random(rows, columns, density, &mut rng), columns);
        }
    }
}

#[test]
fn many_rows_agree_with_the_oracle() {
    // More rows than one task has, with tables of eight pivots.
    let mut rng = StdRng::seed_from_u64(2);
    let rows = random(5000, 70, 0.5, &mut rng);
    check(&random_pivots(70, 0.5, 0.5, &mut rng), &rows, 70);
    let rows = random(700, 650, 0.5, &mut rng);
    check(&random_pivots(650, 0.2, 0.5, &mut rng), &rows, 650);
}

#[test]
fn singular_matrices_agree_with_the_oracle() {
    let mut rng = StdRng::seed_from_u64(3);
    for columns in [65, 513] {
        // A product of rank 20 at most.
        let (left, right) = (random(120, 20, 0.5, &mut rng), random(20, columns, 0.5, &mut rng));
        let row = |left: &Vec<bool>| {
            let mut sum = vec![false; columns];
            for (_, right) in left.iter().zip(&right).filter(|(bit, _)| **bit) {
                sum.iter_mut().zip(right).for_each(|(bit, other)| *bit ^= other);
            }
            sum
        };
        check(&BoolRows::new(), &left.iter().map(row).collect(), columns);
    }
}

#[test]
fn equal_rows_and_single_columns_agree_with_the_oracle() {
    for columns in [1, 64, 65, 600] {
        check(&BoolRows::new(), &vec![vec![true; columns]; 300], columns);
        check(&vec![vec![true; columns]], &vec![vec![true; columns]; 5], columns);
        let last = |_| (0..columns).map(|column| column + 1 == columns).collect();
        check(&BoolRows::new(), &(0..80).map(last).collect(), columns);
        check(&BoolRows::new(), &vec![vec![false; columns]; 3], columns);
    }
}

#[test]
fn leading_columns_that_collide_in_chains_agree_with_the_oracle() {
    let columns = 700;
    let pair = |first: usize, second: usize| {
        (0..columns).map(|column| column == first || column == second).collect::<Vec<_>>()
    };
    // Each addition moves the leading column by one, through all panels.
    let chain: BoolRows = (0..columns - 1).map(|column| pair(column, column + 1)).collect();
    let mut rng = StdRng::seed_from_u64(4);
    let mut shuffled = chain.clone();
    shuffled.shuffle(&mut rng);
    check(&shuffled, &vec![pair(0, 0); 2], columns);
    check(&shuffled[..600].to_vec(), &chain, columns);
    // All rows lead in column 0.
    let rows: BoolRows = (1..columns).map(|column| pair(0, column)).collect();
    check(&BoolRows::new(), &rows, columns);
    // Each row is promoted by what the rows before it became.
    let rows: BoolRows =
        (0..300).map(|row| (0..columns).map(|column| column >= row).collect()).collect();
    let mut reversed = rows.clone();
    reversed.reverse();
    check(&BoolRows::new(), &rows, columns);
    check(&BoolRows::new(), &reversed, columns);
}

#[test]
fn pivots_that_are_zero_or_repeated_are_refused() {
    let rows = matrix_of(&vec![vec![true; 3]], 3);
    let refused = |pivots: &BoolRows| reduce(&matrix_of(pivots, 3), rows.clone(), &|_| true);
    let one = |column: usize| (0..3).map(|at| at >= column).collect::<Vec<_>>();
    let zero = vec![one(1), one(3)];
    assert_eq!(refused(&zero), Err(BadPivot::Zero { row: 1 }.into()));
    let twice = vec![one(2), one(0), one(2)];
    assert_eq!(refused(&twice), Err(BadPivot::Repeated { row: 2, earlier: 0 }.into()));
    let narrow = BitMatrix::zeros(0, 2).unwrap();
    let error = reduce(&narrow, rows.clone(), &|_| true);
    assert_eq!(error, Err(EliminationError::Columns { pivots: 2, rows: 3 }));
}

#[test]
fn a_caller_can_stop_and_sees_all_columns() {
    let mut rng = StdRng::seed_from_u64(5);
    let matrix = matrix_of(&random(40, 1500, 0.5, &mut rng), 1500);
    let stopped = echelon(matrix.clone(), &|progress| progress.columns < 512);
    assert_eq!(stopped, Err(EliminationError::Stopped));
    let last = AtomicU64::new(0);
    let seen = |progress: crate::gf2::EliminationProgress| {
        assert_eq!(progress.of, 1500);
        last.fetch_max(progress.columns, Ordering::Relaxed);
        true
    };
    rank(&matrix, &seen).unwrap();
    assert_eq!(last.into_inner(), 1500);
}
