//! Products of sparse matrices and vectors against the host's and against sums by arkworks.

use std::iter;

use ark_bls12_381::Fr;
use ark_ff::{AdditiveGroup, Field, PrimeField};
use capstan::{
    device::{DeviceFault, DeviceLease, FaultClass, Stream},
    ntt::{DeviceMatrix, DeviceVector, SparseTaskBuilder},
    sparse::{SparseBuilder, SparseMatrix},
};
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    emulated,
    pointwise::{PointwiseBench, TABLE_BYTES_MAX},
    rig::{NttRig, each_seed, edge_elements},
};

/// The most terms and rows of a tile; rows of more than `TILE_ROW_MAX` terms are in none. Rows of
/// more than a piece are split.
const TILE: usize = 512;
const TILE_ROW_MAX: usize = 64;
const PIECE: usize = 2048;

/// The coefficient of a term, and its column.
type Term = (Fr, usize);

/// A matrix with rows of these lengths. Most coefficients are 1 or -1, as in constraint systems.
fn rows(random: &mut StdRng, lengths: &[usize], columns: usize) -> Vec<Vec<Term>> {
    let largest = Fr::new_unchecked((-Fr::ONE).into_bigint());
    let frequent = [Fr::ONE, -Fr::ONE, Fr::ONE, -Fr::ONE, Fr::ZERO, largest, Fr::from(2_u64)];
    let mut term = || {
        let coefficient = match random.random_range(0..=frequent.len()) {
            index if index < frequent.len() => frequent[index],
            _ => Fr::from(random.random::<u64>()).pow([5]),
        };
        (coefficient, random.random_range(0..columns))
    };
    lengths.iter().map(|length| (0..*length).map(|_| term()).collect()).collect()
}

fn build(rows: &[Vec<Term>], columns: usize) -> SparseMatrix {
    let mut builder = SparseBuilder::new(rows.len(), columns);
    rows.iter().for_each(|row| builder.push_row(row.iter().copied()).unwrap());
    builder.build().unwrap()
}

/// A matrix on the device, with one lease per part.
struct UploadedMatrix {
    columns: usize,
    pieces: usize,
    /// Coefficients, terms, row ends, tasks of products, and rows that are split.
    parts: [DeviceLease; 5],
}

impl UploadedMatrix {
    fn new(rig: &NttRig, stream: &Stream, matrix: &SparseMatrix) -> Self {
        let mut tasks = SparseTaskBuilder::default();
        tasks.add_rows(matrix.row_ends());
        let tasks = tasks.build();
        let coefficient_bytes = 32 * matrix.coefficients().len();
        let parts = [
            &matrix.as_bytes()[..coefficient_bytes],
            bytemuck::cast_slice(matrix.terms()),
            bytemuck::cast_slice(matrix.row_ends()),
            bytemuck::cast_slice(&tasks.products),
            bytemuck::cast_slice(&tasks.split_rows),
        ];
        let parts = parts.map(|bytes| {
            let lease = rig.gpu.arena().lease(stream, bytes.len() as u64).unwrap();
            rig.gpu.ring().upload(stream, lease.all()).write(bytes).unwrap();
            lease
        });
        let columns = matrix.shape().columns as usize;
        Self { columns, pieces: tasks.pieces, parts }
    }

    fn on_device(&self) -> DeviceMatrix<'_> {
        let [coefficients, terms, row_ends, products, split_rows] = &self.parts;
        DeviceMatrix {
            columns: self.columns,
            coefficients: coefficients.all(),
            terms: terms.all(),
            row_ends: row_ends.all(),
            products: products.all(),
            split_rows: split_rows.all(),
            pieces: self.pieces,
        }
    }
}

/// Checks the products of a matrix with these rows and two vectors.
fn check(bench: &PointwiseBench<'_>, rows: &[Vec<Term>], columns: usize, salt: u64) {
    const VECTORS: usize = 2;
    let matrix = build(rows, columns);
    let vectors = edge_elements(VECTORS * columns, salt);
    let sum = |vector: &[Fr], row: &[Term]| -> Fr {
        row.iter().map(|(coefficient, column)| vector[*column] * coefficient).sum()
    };
    let mut expected = Vec::new();
    for index in 0..VECTORS {
        let vector = &vectors[index * columns..][..columns];
        let mut product = vec![Fr::ZERO; rows.len()];
        matrix.multiply(vector, &mut product);
        let naive: Vec<_> = rows.iter().map(|row| sum(vector, row)).collect();
        assert_eq!(product, naive);
        expected.extend(product);
    }
    let (rig, stream) = (bench.rig, &bench.stream);
    let uploaded = UploadedMatrix::new(rig, stream, &matrix);
    // Filled, as no element may keep what was there before, and with a guard behind the last one.
    let out = rig.upload(stream, &vec![Fr::from(7_u64); expected.len() + 1]);
    let given = rig.upload(stream, &vectors);
    let to = out.all().slice(0, expected.len()).unwrap();
    let on_device = uploaded.on_device();
    bench.pointwise.multiply_sparse(stream, to, &on_device, given.all(), VECTORS).unwrap();
    let mut found = rig.download(stream, &out);
    assert_eq!(found.pop(), Some(Fr::from(7_u64)), "the guard element was overwritten");
    let wrong = iter::zip(&found, &expected).position(|(found, expected)| found != expected);
    assert_eq!(wrong, None, "{} rows, {columns} columns", rows.len());
}

/// Single rows, empty rows, and rows around the lengths at which tasks change.
#[test]
fn products_match_the_hosts_whatever_the_lengths_of_rows() {
    each_seed(TABLE_BYTES_MAX, |rig, seed| {
        let bench = PointwiseBench::new(rig);
        let mut random = StdRng::seed_from_u64(seed as u64);
        let few_huge = [0, 0, 3 * PIECE + 1, 0, 0, 0, PIECE + 1, 0];
        let around = [TILE_ROW_MAX, TILE_ROW_MAX + 1, 128, TILE, TILE + 1, PIECE, PIECE + 1, 1, 0];
        let cases = [
            vec![],
            vec![0],
            vec![1],
            vec![3],
            vec![TILE_ROW_MAX + 1],
            vec![5 * PIECE + 129],
            vec![0; 2 * TILE + 3],
            vec![1; TILE + 1],
            few_huge.to_vec(),
            around.to_vec(),
            [[TILE_ROW_MAX; 7].as_slice(), &[TILE_ROW_MAX - 1, 1, 1]].concat(),
        ];
        for (i, lengths) in cases.iter().enumerate() {
            let columns = [1, 2, 1000][(i + seed) % 3];
            let rows = rows(&mut random, lengths, columns);
            check(&bench, &rows, columns, (i + 31 * seed) as u64);
        }
    });
}

/// Rows as those of circuits: mostly of one to three terms, some of up to some hundred.
#[test]
fn products_of_matrices_as_of_circuits_match_the_hosts() {
    each_seed(TABLE_BYTES_MAX, |rig, seed| {
        let bench = PointwiseBench::new(rig);
        let mut random = StdRng::seed_from_u64(77 + seed as u64);
        let count = if emulated::driver().is_some() { 2000 } else { 1 << 20 };
        let lengths: Vec<_> = (0..count)
            .map(|_| match random.random_range(0..40) {
                0 => random.random_range(0..400),
                1..4 => random.random_range(0..40),
                _ => random.random_range(1..4),
            })
            .collect();
        let rows = rows(&mut random, &lengths, count);
        check(&bench, &rows, count, seed as u64);
    });
}

/// Sums of the largest limbs, and of terms that cancel.
#[test]
fn products_of_edge_values_match_the_hosts() {
    each_seed(TABLE_BYTES_MAX, |rig, seed| {
        let bench = PointwiseBench::new(rig);
        let largest = Fr::new_unchecked((-Fr::ONE).into_bigint());
        for (i, coefficient) in [Fr::ZERO, Fr::ONE, -Fr::ONE, largest].into_iter().enumerate() {
            let row = |length: usize| (0..length).map(|at| (coefficient, at % 5)).collect();
            let mut rows: Vec<Vec<_>> = [2, 60, 130, PIECE + 3].map(row).into();
            let cancel = |at| [(Fr::ONE, at), (-Fr::ONE, at)];
            rows.push((0..5).flat_map(cancel).collect());
            for salt in 0..6 {
                check(&bench, &rows, 5, (10 * i + salt + seed) as u64);
            }
        }
    });
}

#[test]
fn vectors_that_do_not_match_the_matrix_are_refused() {
    each_seed(TABLE_BYTES_MAX, |rig, _| {
        let bench = PointwiseBench::new(rig);
        let stream = &bench.stream;
        let rows = rows(&mut StdRng::seed_from_u64(1), &[2, 3], 3);
        let uploaded = UploadedMatrix::new(rig, stream, &build(&rows, 3));
        let lease = rig.upload(stream, &edge_elements(64, 1));
        let part = |first, count| -> DeviceVector<'_> { lease.all().slice(first, count).unwrap() };
        let multiply = |out, vectors, count| {
            bench.pointwise.multiply_sparse(stream, out, &uploaded.on_device(), vectors, count)
        };
        let is_misuse =
            |done: Result<(), DeviceFault>| done.unwrap_err().class() == FaultClass::Misuse;
        assert!(is_misuse(multiply(part(0, 2), part(10, 2), 1)), "too few elements");
        assert!(is_misuse(multiply(part(0, 3), part(10, 3), 1)), "too many rows");
        assert!(is_misuse(multiply(part(0, 2), part(10, 6), 1)), "two vectors for one product");
        assert!(is_misuse(multiply(part(0, 2), part(10, 3), usize::MAX)), "too many vectors");
        assert!(is_misuse(multiply(part(2, 2), part(0, 3), 1)), "an overlap");
        multiply(part(3, 2), part(0, 3), 1).unwrap();
        multiply(part(0, 0), part(10, 0), 0).unwrap();
        stream.synchronize().unwrap();
    });
}
