//! Steps over GF(2) on a daemon with GPUs: their results equal those of the host.

use capstan::{
    client::{
        ClientError, ProgramBuilder, ProgramRun, Reason, RunOptions, Verification,
        blocking::BlockingClient,
    },
    gf2::{BitMatrix, echelon, rank, reduce},
};
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::daemon::{start, stop};

pub fn rng() -> StdRng {
    StdRng::seed_from_u64(7)
}

/// A matrix whose bits `is_one` chooses.
pub fn matrix(
    rows: usize,
    columns: usize,
    mut is_one: impl FnMut(usize, usize) -> bool,
) -> BitMatrix {
    let mut matrix = BitMatrix::zeros(rows as u64, columns as u64).unwrap();
    for row in 0..rows {
        for column in 0..columns {
            if is_one(row, column) {
                matrix.set(row, column);
            }
        }
    }
    matrix
}

/// Pivots that lead in one of three columns, the last one first.
pub fn pivots(rng: &mut StdRng, columns: usize, density: f64) -> BitMatrix {
    let leading: Vec<usize> = (0..columns).step_by(3).collect();
    let leads = |row: usize| leading[leading.len() - 1 - row];
    matrix(leading.len(), columns, |row, column| {
        column == leads(row) || column > leads(row) && rng.random_bool(density)
    })
}

/// Pivots and rows.
struct Case {
    name: &'static str,
    pivots: BitMatrix,
    rows: BitMatrix,
}

fn cases() -> Vec<Case> {
    let rng = &mut rng();
    let none = |columns| matrix(0, columns, |_, _| false);
    let mut cases = Vec::new();
    for (name, columns, rows, density) in [
        ("random", 600, 300, 0.5),
        ("sparse", 700, 200, 0.01),
        ("one column", 1, 20, 0.5),
        ("no row", 300, 0, 0.5),
    ] {
        let rows = matrix(rows, columns, |_, _| rng.random_bool(density));
        cases.push(Case { name, pivots: pivots(rng, columns, density), rows });
    }
    let columns = 530;
    let equal = matrix(60, columns, |_, column| [0, 255, 256, 529].contains(&column));
    cases.push(Case { name: "equal rows", pivots: none(columns), rows: equal });
    let base = matrix(9, columns, |_, _| rng.random_bool(0.5));
    let mut sums = BitMatrix::zeros(80, columns as u64).unwrap();
    for row in 0..80 {
        let [first, second] = [0, 1].map(|_| rng.random_range(0..9));
        let sum =
            base.row(first).iter().zip(base.row(second)).map(|(first, second)| first ^ second);
        for (word, bits) in sum.enumerate() {
            let ones = (0..64).filter(|bit| bits >> bit & 1 == 1);
            ones.for_each(|bit| sums.set(row, 64 * word + bit));
        }
    }
    cases.push(Case { name: "singular", pivots: none(columns), rows: sums });
    cases.push(Case { name: "zero", pivots: none(70), rows: matrix(30, 70, |_, _| false) });
    // Each addition moves the leading column by one.
    let chain = matrix(columns - 1, columns, |row, column| column == row || column == row + 1);
    let ends = matrix(3, columns, |row, column| column == 2 * row);
    cases.push(Case { name: "chain", pivots: chain, rows: ends });
    cases
}

fn check(client: &BlockingClient, case: &Case) {
    let Case { name, pivots, rows } = case;
    let reduced = reduce(pivots, rows.clone(), &|_| true).unwrap();
    let form = echelon(rows.clone(), &|_| true).unwrap();
    for verify in [Verification::None, Verification::Full] {
        let options = || RunOptions { verify, ..RunOptions::default() };
        let result = client.gf2_reduce(pivots, rows, options()).unwrap();
        assert!(result.matrix == reduced.rows, "{name}: other rows");
        assert_eq!(result.rank, reduced.rank, "{name}");
        assert_eq!((&*result.execution.engine, result.execution.verified), ("cuda", verify));
        let result = client.gf2_echelon(rows, options()).unwrap();
        assert!(result.matrix == form.matrix, "{name}: another echelon form");
        assert_eq!(result.rank, rank(rows, &|_| true).unwrap(), "{name}");
    }
}

#[test]
fn eliminations_of_a_daemon_equal_those_of_the_host() {
    let (child, address) = start(&["--engine", "cuda"], &[]);
    let client = BlockingClient::connect(address).unwrap();
    for case in cases() {
        check(&client, &case);
    }
    let repeated = matrix(3, 100, |row, column| column == [40, 70, 40][row]);
    let refused = client.gf2_reduce(&repeated, &repeated, RunOptions::default());
    let Err(ClientError::Refused(refusal)) = refused else { panic!("accepted {refused:?}") };
    assert_eq!(refusal.field.as_deref(), Some("program.steps[2].gf2_reduce.pivots"));
    assert_eq!((refusal.reason, refusal.index), (Some(Reason::OutOfRange), Some(2)));
    // The GPU has computed them: the host has no method.
    let (rows, columns) = (40, 300);
    let mut program = ProgramBuilder::new();
    let given = program.input_bits(rows, columns).unwrap();
    let form = program.gf2_echelon(given).unwrap();
    let matrix = matrix(rows as usize, columns as usize, |row, column| column >= row);
    let run = ProgramRun::new(&program.build().unwrap()).input(given.vector(), &matrix);
    let result = client.run(run.send(form.vector())).unwrap();
    assert!(result.steps[1].method.starts_with("2 panels by "), "{:?}", result.steps);
    stop(child);
}
