//! Products of a stored matrix and vectors.

use std::sync::Arc;

use ark_ff::{AdditiveGroup, One};
use ark_std::rand::{Rng, SeedableRng, rngs::StdRng};
use capstan::{
    curve::{Fr, layout::fr_as_bytes},
    engine::JobControl,
    error::{EngineError, FieldProblem},
    ops::{SliceStep, SparseProductStep},
    program::{StepProblem, ValueId},
    sparse::{SparseBuilder, SparseMatrix},
    verify::Verification,
};

use crate::rig::{Call, EXECUTOR, Rows, random, random_rows};

/// The rows of a matrix: coefficients and their columns.
type SparseRows = Vec<Vec<(Fr, usize)>>;

/// Rows of `lengths` terms, most of whose coefficients are 1 or -1.
pub fn random_matrix(lengths: &[usize], columns: usize, seed: u64) -> SparseRows {
    let mut rng = StdRng::seed_from_u64(seed);
    let frequent = [Fr::one(), -Fr::one(), Fr::ZERO, random(seed), random(seed + 1)];
    let mut term = || (frequent[rng.gen_range(0..5)], rng.gen_range(0..columns));
    lengths.iter().map(|length| (0..*length).map(|_| term()).collect()).collect()
}

pub fn matrix(columns: usize, rows: &SparseRows) -> SparseMatrix {
    let mut builder = SparseBuilder::new(rows.len(), columns);
    rows.iter().for_each(|row| builder.push_row(row.iter().copied()).expect("columns exist"));
    builder.build().expect("few terms")
}

/// The step for a matrix that the call carries.
pub fn product_step(input: ValueId, matrix: &SparseMatrix) -> SparseProductStep {
    let shape = matrix.shape();
    let (rows, terms) = (shape.rows.into(), shape.terms.into());
    SparseProductStep { input, object_id: [0; 32], rows, terms }
}

pub fn expected(rows: &SparseRows, vectors: &Rows) -> Rows {
    let product = |vector: &Vec<Fr>| {
        let row = |row: &Vec<(Fr, usize)>| row.iter().map(|(c, at)| vector[*at] * c).sum();
        rows.iter().map(row).collect()
    };
    vectors.iter().map(product).collect()
}

/// Lengths of rows: degenerate, equal, and with rows that are longer than all others together.
pub const ROW_LENGTHS: [&[usize]; 6] =
    [&[0], &[1], &[0; 300], &[3; 200], &[0, 1, 2200, 0, 70, 3], &[4200]];

#[test]
fn products_are_those_of_all_rows_and_vectors() {
    for (seed, lengths) in ROW_LENGTHS.into_iter().enumerate() {
        for (vectors, columns) in [(1, 1), (2, 77)] {
            let rows = random_matrix(lengths, columns, seed as u64);
            let mut input = random_rows(vectors, columns, seed as u64 + 100);
            input[0][columns / 2] = Fr::ZERO;
            let matrix = matrix(columns, &rows);
            let mut call = Call { matrices: vec![matrix.clone()], ..Call::default() };
            let value = call.input(&input);
            assert_eq!(call.rows_of(product_step(value, &matrix)), expected(&rows, &input));
        }
    }
}

#[test]
fn each_step_uses_its_own_matrix() {
    let (first, second) = (random_matrix(&[2; 50], 40, 1), random_matrix(&[1; 30], 50, 2));
    let matrices = [matrix(40, &first), matrix(50, &second)];
    let input = random_rows(2, 40, 3);
    let mut call = Call { matrices: matrices.to_vec(), ..Call::default() };
    let value = call.input(&input);
    let between = call.push(product_step(value, &matrices[0]));
    let product = expected(&second, &expected(&first, &input));
    assert_eq!(call.rows_of(product_step(between, &matrices[1])), product);
}

#[test]
fn full_checks_multiply_again() {
    let rows = random_matrix(&[4; 20], 10, 4);
    let (matrix, input) = (matrix(10, &rows), random_rows(1, 10, 5));
    let mut call = Call { matrices: vec![matrix.clone()], ..Call::default() };
    let value = call.input(&input);
    let product = call.push(product_step(value, &matrix));
    call.outputs = vec![product];
    let checked = call.run(&*EXECUTOR, Verification::Full, &JobControl::default()).unwrap();
    assert_eq!(checked.report.steps[product.index()].verified, Verification::Full);
}

#[test]
fn steps_state_their_matrix() {
    let shape = matrix(10, &random_matrix(&[1, 2], 10, 6)).shape();
    let step = SparseProductStep { input: ValueId(0), object_id: [0; 32], rows: 2, terms: 3 };
    assert_eq!(step.check_matrix(shape, 10), Ok(()));
    let refused = |field, expected, got| {
        Err(StepProblem::field(field, FieldProblem::Length { expected, got }))
    };
    assert_eq!(step.check_matrix(shape, 11), refused("input", 10, 11));
    let other = SparseProductStep { rows: 3, ..step.clone() };
    assert_eq!(other.check_matrix(shape, 10), refused("rows", 2, 3));
    let other = SparseProductStep { terms: 1, ..step };
    assert_eq!(other.check_matrix(shape, 10), refused("terms", 3, 1));
}

#[test]
fn impossible_steps_are_refused() {
    let with = |rows, terms| {
        let mut call = Call::default();
        let input = call.input_step(1, 4);
        call.push(SparseProductStep { input, object_id: [0; 32], rows, terms });
        call.program().map(drop)
    };
    let refused = |field, max| {
        let problem = StepProblem::field(field, FieldProblem::TooLarge { max });
        Err(problem.of_step(1, "sparse_product").into())
    };
    assert_eq!(with(4, u64::from(u32::MAX)), Ok(()));
    assert_eq!(with(4, 1 << 32), refused("terms", u64::from(u32::MAX)));
    assert_eq!(with(u64::MAX, 1), refused("rows", 1 << 40));
}

#[test]
fn a_cancelled_product_stops() {
    let rows = random_matrix(&[1; 10], 4, 7);
    let matrix = matrix(4, &rows);
    let mut call = Call { matrices: vec![matrix.clone()], ..Call::default() };
    let value = call.input(&random_rows(1, 4, 8));
    let product = call.push(product_step(value, &matrix));
    call.outputs = vec![call.push(SliceStep { input: product, offset: 0, length: 2 })];
    let control = JobControl::default();
    control.cancel();
    let stopped = call.run(&*EXECUTOR, Verification::None, &control);
    assert_eq!(stopped.unwrap_err(), EngineError::Cancelled);
}

#[test]
fn the_layout_is_the_one_of_the_contract() {
    let rows = vec![vec![(Fr::from(7), 3), (Fr::one(), 0)], Vec::new(), vec![(-Fr::one(), 1)]];
    let matrix = matrix(4, &rows);
    let mut bytes = fr_as_bytes(&[Fr::from(7)]).to_vec();
    for word in [3_u32, 2, 0, 0, 1, 1, 2, 2, 3] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    assert_eq!(matrix.as_bytes(), bytes);
    let owner = bytes.chunks(8).map(|limb| {
        let mut padded = [0; 8];
        padded[..limb.len()].copy_from_slice(limb);
        u64::from_le_bytes(padded)
    });
    let read = SparseMatrix::new(matrix.shape(), Arc::new(owner.collect::<Vec<_>>())).unwrap();
    assert_eq!(read, matrix);
}
