//! Eliminations over GF(2) on a server.

use capstan::client::{
    BitMatrix, BitMatrixValue, Client, ClientError, InputElements, ProgramBuilder, ProgramRun,
    RunOptions, ScalarEncoding, Verification,
};

use crate::client_programs::{common::server, message};

const COLUMNS: u64 = 100;

fn matrix(rows: &[u128]) -> BitMatrix {
    let words = rows.iter().flat_map(|row| [*row as u64, (*row >> 64) as u64]).collect();
    BitMatrix::from_words(rows.len() as u64, COLUMNS, words).unwrap()
}

/// Rows of 100 bits.
fn rows(count: u128, seed: u128) -> Vec<u128> {
    let row = |i: u128| {
        let mixed = (i + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        (mixed ^ mixed >> 41) & ((1 << COLUMNS) - 1)
    };
    (1..=count).map(row).collect()
}

/// Pivots that lead in every third column.
fn pivots() -> Vec<u128> {
    let pivots = rows(33, 7).into_iter().zip((0..99).step_by(3));
    let pivots = pivots.map(|(row, leading)| row >> leading << leading | 1 << leading);
    pivots.rev().collect()
}

/// The rows, each reduced by the pivots and by the rows before it.
fn reduced(pivots: &[u128], rows: &[u128]) -> Vec<u128> {
    let mut pivots = pivots.to_vec();
    let reduce = |row: &u128| {
        let mut row = *row;
        let leads = |pivot: u128, row: u128| pivot.trailing_zeros() == row.trailing_zeros();
        while row != 0 {
            match pivots.iter().find(|pivot| leads(**pivot, row)) {
                Some(pivot) => row ^= pivot,
                None => {
                    pivots.push(row);
                    break;
                }
            }
        }
        row
    };
    rows.iter().map(reduce).collect()
}

fn rank(rows: &[u128]) -> u64 {
    reduced(&[], rows).iter().filter(|row| **row != 0).count() as u64
}

#[tokio::test(flavor = "multi_thread")]
async fn reduced_rows_and_echelon_forms_equal_those_of_integers() {
    let server = server();
    let client = Client::connect(&server.target).await.unwrap();
    let many = rows(150, 1);
    let few: Vec<_> = many.iter().take(20).chain(&many[..20]).copied().collect();
    for (pivots, rows) in [
        (pivots(), many.clone()),
        (pivots(), few),
        (pivots(), vec![]),
        (vec![], many.clone()),
        (vec![], vec![]),
        (vec![1 << 99], vec![1 << 99; 3]),
    ] {
        let given = [matrix(&pivots), matrix(&rows)];
        for verify in [Verification::None, Verification::Full] {
            let options = || RunOptions { verify, ..RunOptions::default() };
            let result = client.gf2_reduce(&given[0], &given[1], options()).await.unwrap();
            let expected = reduced(&pivots, &rows);
            assert_eq!(result.matrix.words(), matrix(&expected).words());
            let promoted = expected.iter().filter(|row| **row != 0).count() as u64;
            assert_eq!(result.nonzero_rows, promoted);
            assert_eq!(result.rank, rank(&[&pivots[..], &rows].concat()));
            assert_eq!(result.execution.verified, verify);
            let form = client.gf2_echelon(&given[1], options()).await.unwrap();
            assert_eq!(form.rank, rank(&rows));
            let leading: Vec<_> = (0..form.rank as usize)
                .map(|row| form.matrix.leading_column(row).unwrap())
                .collect();
            assert!(leading.is_sorted_by(|a, b| a < b), "{leading:?}");
            for row in 0..form.matrix.rows() {
                let ones = form.matrix.ones(row).filter(|column| leading.contains(column)).count();
                assert_eq!(ones, usize::from(row < leading.len()), "row {row}");
            }
            // The form spans what the rows span.
            let form: Vec<_> = form
                .matrix
                .words()
                .chunks(2)
                .map(|row| u128::from(row[0]) | u128::from(row[1]) << 64)
                .collect();
            assert_eq!(rank(&[&form[..], &rows].concat()), rank(&rows));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn matrices_are_stored_joined_and_kept() {
    let server = server();
    let client = Client::connect(&server.target).await.unwrap();
    let (first, second) = (rows(40, 3), rows(70, 4));
    let stored = client.put_vector(&matrix(&first)).await.unwrap();
    assert_eq!((stored.encoding, stored.count), (ScalarEncoding::PackedBits64, 80));
    let back = client.get_bit_matrix(&stored, COLUMNS).await.unwrap();
    assert_eq!(back, matrix(&first));

    let mut program = ProgramBuilder::new();
    let a = program.input_bits(40, COLUMNS).unwrap();
    let b = program.input_bits(70, COLUMNS).unwrap();
    let both = program.concat(&[a.vector(), b.vector()]).unwrap();
    let both = BitMatrixValue::new(both, COLUMNS);
    assert_eq!((both.rows(), both.columns()), (110, COLUMNS));
    let no_pivots = program.slice(a.vector(), 0, 0).unwrap();
    let no_pivots = BitMatrixValue::new(no_pivots, COLUMNS);
    let reduced_rows = program.gf2_reduce(no_pivots, both).unwrap();
    let form = program.gf2_echelon(reduced_rows).unwrap();
    let program = program.build().unwrap();
    let second_rows = matrix(&second);
    let run = ProgramRun::new(&program)
        .input(a.vector(), InputElements::stored(stored.id, 0))
        .input(b.vector(), &second_rows)
        .send(reduced_rows.vector())
        .keep(form.vector());
    let result = client.run(run).await.unwrap();
    let expected = reduced(&[], &[first, second].concat());
    assert_eq!(result.bit_matrix(reduced_rows).unwrap(), matrix(&expected));
    assert!(result.vector(reduced_rows.vector()).is_err(), "not over Fr");
    let kept = result.kept(form.vector()).unwrap();
    let kept_form = client.get_bit_matrix(&kept, COLUMNS).await.unwrap();
    let expected_rank = expected.iter().filter(|row| **row != 0).count();
    assert!(kept_form.leading_column(expected_rank - 1).is_some());
    for id in [kept.id, stored.id] {
        client.release_vector(id).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_matrix_or_no_pivot_is_refused() {
    let mut program = ProgramBuilder::new();
    let a = program.input_bits(2, 100).unwrap();
    let b = program.input_bits(2, 101).unwrap();
    let refused = message(program.gf2_reduce(a, b));
    assert!(refused.contains("gf2_reduce.columns: wrong length: expected 100"), "{refused}");
    let none = program.input_bits(2, 0).unwrap();
    let refused = message(program.gf2_echelon(none));
    assert!(refused.contains("gf2_echelon.columns: must not be zero"), "{refused}");
    let over_fr = program.input(4).unwrap();
    let refused = message(program.gf2_echelon(BitMatrixValue::new(over_fr, 64)));
    assert!(refused.contains("is a vector over bls12-381-fr"), "{refused}");
    let refused = message(program.add(a.vector(), a.vector()));
    assert!(refused.contains("is a vector over gf2"), "{refused}");

    let server = server();
    let client = Client::connect(&server.target).await.unwrap();
    let given = [matrix(&[4, 2, 12]), matrix(&[1])];
    let refused = client.gf2_reduce(&given[0], &given[1], RunOptions::default()).await;
    let Err(ClientError::Refused(refusal)) = refused else { panic!("{refused:?}") };
    let field = refusal.field.as_deref();
    assert_eq!((field, refusal.index), (Some("program.steps[2].gf2_reduce.pivots"), Some(2)));
}
