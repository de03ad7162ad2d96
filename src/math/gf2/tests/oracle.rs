//! An independent elimination: rows are vectors of `bool`, and everything is done one bit, one row
//! at a time.

use std::collections::BTreeMap;

use crate::gf2::BitMatrix;

pub type BoolRows = Vec<Vec<bool>>;

pub fn rows_of(matrix: &BitMatrix) -> BoolRows {
    let bit = |row, column: usize| matrix.row(row)[column / 64] >> (column % 64) & 1 == 1;
    let row = |row| (0..matrix.columns()).map(|column| bit(row, column)).collect();
    (0..matrix.rows()).map(row).collect()
}

pub fn matrix_of(rows: &BoolRows, columns: usize) -> BitMatrix {
    let mut matrix = BitMatrix::zeros(rows.len() as u64, columns as u64).unwrap();
    for (at, row) in rows.iter().enumerate() {
        for column in (0..columns).filter(|column| row[*column]) {
            matrix.set(at, column);
        }
    }
    matrix
}

fn leading(row: &[bool]) -> Option<usize> {
    row.iter().position(|bit| *bit)
}

fn add(row: &mut [bool], other: &[bool]) {
    for (bit, other) in row.iter_mut().zip(other) {
        *bit ^= other;
    }
}

/// The rows, each reduced by the pivots and by the promoted rows before it, and which are promoted.
pub fn reduce(pivots: &BoolRows, rows: &BoolRows) -> (BoolRows, Vec<bool>) {
    let lead = |pivot: &Vec<bool>| (leading(pivot).unwrap(), pivot.clone());
    let mut pivots: BTreeMap<_, _> = pivots.iter().map(lead).collect();
    let mut reduced = rows.clone();
    let mut promoted = vec![false; rows.len()];
    for (row, promoted) in reduced.iter_mut().zip(&mut promoted) {
        while let Some(column) = leading(row) {
            let Some(pivot) = pivots.get(&column) else {
                *promoted = true;
                pivots.insert(column, row.clone());
                break;
            };
            add(row, pivot);
        }
    }
    (reduced, promoted)
}

/// The reduced row echelon form and the rank.
pub fn echelon(rows: &BoolRows, columns: usize) -> (BoolRows, usize) {
    let mut rows = rows.clone();
    let mut rank = 0;
    for column in 0..columns {
        let Some(found) = (rank..rows.len()).find(|row| rows[*row][column]) else { continue };
        rows.swap(rank, found);
        let pivot = rows[rank].clone();
        for (at, row) in rows.iter_mut().enumerate() {
            if at != rank && row[column] {
                add(row, &pivot);
            }
        }
        rank += 1;
    }
    (rows, rank)
}
