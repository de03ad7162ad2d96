//! Lesson 13: elimination over GF(2). A program reduces rows of bits by pivot rows, as Gröbner
//! bases need it, and computes the reduced row echelon form of what remains.
//!
//! `cargo run --release --example 13_gf2`

mod common;

use capstan::client::{
    BitMatrix, Client, InputElements, ProgramBuilder, ProgramRun, Result, RunOptions,
};

const COLUMNS: u64 = 70;

/// A matrix of rows that are 1 in these columns. The lowest column of a row is its leading column.
fn matrix(rows: &[&[usize]]) -> BitMatrix {
    let mut matrix = BitMatrix::zeros(rows.len() as u64, COLUMNS).expect("a small matrix");
    for (row, columns) in rows.iter().enumerate() {
        columns.iter().for_each(|column| matrix.set(row, *column));
    }
    matrix
}

#[tokio::main]
async fn main() -> Result<()> {
    let server = common::server();
    let client = Client::connect(&server.target).await?;

    // Pivots have distinct leading columns. While a row has the leading column of a pivot, the
    // pivot is added to it.
    let pivots = matrix(&[&[0, 65], &[64, 69]]);
    let rows = matrix(&[&[0, 1], &[0, 1], &[64, 69]]);
    let reduced = client.gf2_reduce(&pivots, &rows, RunOptions::default()).await?;
    // The first row becomes {1, 65} and is promoted to a pivot, which the second row then equals.
    assert_eq!(reduced.matrix, matrix(&[&[1, 65], &[], &[]]));
    assert_eq!((reduced.nonzero_rows, reduced.rank), (1, 3));

    // Steps combine: these pivots stay on the server, where each run takes them as an input.
    let stored = client.put_vector(&pivots).await?;
    let mut program = ProgramBuilder::new();
    let given = program.input_bits(2, COLUMNS)?;
    let to_reduce = program.input_bits(3, COLUMNS)?;
    let remaining = program.gf2_reduce(given, to_reduce)?;
    let form = program.gf2_echelon(remaining)?;
    let program = program.build()?;
    let more = matrix(&[&[3, 5], &[2, 3, 5], &[0, 3]]);
    let run = ProgramRun::new(&program)
        .input(given.vector(), InputElements::stored(stored.id, 0))
        .input(to_reduce.vector(), &more)
        .send(form.vector());
    let result = client.run(run).await?;
    // Each leading column is 0 in all other rows.
    assert_eq!(result.bit_matrix(form)?, matrix(&[&[2], &[3, 65], &[5, 65]]));
    for step in &result.steps {
        println!("{:>12} {:?}", step.operation, step.time);
    }

    // A row that cannot be a pivot is refused by its index, such as gf2_reduce.pivots[1].
    let twice = matrix(&[&[4], &[4, 5]]);
    let refused = client.gf2_reduce(&twice, &rows, RunOptions::default()).await;
    println!("{}", refused.expect_err("both rows lead in column 4"));

    client.release_vector(stored.id).await
}
