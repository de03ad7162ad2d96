//! A server that has restarted knows nothing: the client puts again what it holds.

use std::sync::Arc;

use capstan::{
    client::{Client, Fr, G1Affine, G2Affine, ProgramBuilder, ProgramRun, PutOptions},
    sparse::{SparseBuilder, SparseMatrix},
};

use crate::many_servers::rig::{
    POINTS, batch, bounded, many_points, many_scalars, points, restart, scalars, start, sum, sums,
};

fn hold() -> PutOptions {
    PutOptions { hold: true, label: "held".into(), ..PutOptions::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_msm_puts_held_bases_again_after_a_restart() {
    let daemon = start();
    let client = Client::builder(daemon.target()).retries(20).connect().await.unwrap();
    let (small, large) = (points::<G2Affine>(1, 30), many_points(2));
    let small_bases = client.put_bases_with(hold(), &small).await.unwrap();
    let large_bases = client.put_shared_bases(hold(), Arc::from(&large[..])).await.unwrap();
    let forgotten = client.put_bases(&points::<G1Affine>(3, 30)).await.unwrap();
    let daemon = restart(daemon);
    let used = small_bases.slice(10, 20).unwrap();
    let elements = scalars(1, 20);
    let found = bounded(client.msm(&used, &elements)).await.unwrap();
    assert_eq!(found, sum(&small[10..], &elements));
    // Streamed over several lanes.
    let elements = many_scalars(2, 3 * POINTS);
    let found = bounded(client.msm_with(&large_bases, &elements, batch(3))).await.unwrap();
    assert_eq!(found.points, sums(&large, &elements));
    let listed = client.list(None).await.unwrap();
    assert!(listed.len() == 2 && listed.iter().all(|bases| bases.label == "held"), "{listed:?}");
    let error = client.msm(&forgotten, &scalars(3, 30)).await.unwrap_err();
    assert!(error.is_not_found(), "{error}");
    drop(daemon);
}

/// The matrix that doubles every element.
fn twice(n: usize) -> SparseMatrix {
    let mut builder = SparseBuilder::new(n, n);
    for row in 0..n {
        builder.push_row([(Fr::from(2), row)]).unwrap();
    }
    builder.build().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_puts_its_program_bases_and_matrices_again() {
    let daemon = start();
    let client = Client::builder(daemon.target()).retries(20).connect().await.unwrap();
    let (first, second) = (points::<G1Affine>(4, 16), points::<G2Affine>(5, 16));
    let mut program = ProgramBuilder::new();
    let input = program.input(16).unwrap();
    let matrix = client.put_matrix_with(hold(), &twice(16)).await.unwrap();
    let doubled = program.multiply_sparse(&matrix, input).unwrap();
    let first_bases = client.put_bases_with(hold(), &first).await.unwrap();
    let second_bases = client.put_bases_with(hold(), &second).await.unwrap();
    let sums =
        (program.msm(&first_bases, doubled).unwrap(), program.msm(&second_bases, doubled).unwrap());
    let program = client.put_program(&program.build().unwrap()).await.unwrap();
    // The program holds the objects.
    drop((matrix, first_bases, second_bases));
    let daemon = restart(daemon);
    let elements = scalars(6, 16);
    let run = ProgramRun::new(&program).input(input, &elements);
    let run = run.send_points(sums.0).send_points(sums.1);
    let result = bounded(client.run(run)).await.unwrap();
    let doubled: Vec<_> = elements.iter().map(|element| *element + element).collect();
    assert_eq!(result.points(sums.0).unwrap(), [sum(&first, &doubled)]);
    assert_eq!(result.points(sums.1).unwrap(), [sum(&second, &doubled)]);
    drop(daemon);
}
