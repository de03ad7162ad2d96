//! Memory that a daemon with GPUs shares with a client.

use ark_ec::{CurveGroup as _, VariableBaseMSM as _};
use ark_ff::UniformRand as _;
use ark_poly::{EvaluationDomain, Radix2EvaluationDomain};
use ark_std::rand::{SeedableRng as _, rngs::StdRng};
use capstan::{
    client::{
        NttOptions, NttTransform, ProgramBuilder, ProgramRun, RunOptions, Verification,
        blocking::BlockingClient,
    },
    curve::{Fr, G1Projective},
};

use crate::daemon::{start, stop};

const N: usize = 1 << 8;

#[test]
fn programs_on_the_gpu_read_and_write_shared_vectors() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("capstan.sock").display().to_string();
    let (child, _) = start(&["--engine", "cuda", "--unix-socket", &socket], &[]);
    let client = BlockingClient::connect(format!("unix:{socket}")).unwrap();
    let mut rng = StdRng::seed_from_u64(3);
    let points: Vec<_> = (0..N).map(|_| G1Projective::rand(&mut rng)).collect();
    let points = G1Projective::normalize_batch(&points);
    let bases = client.put_bases(&points).unwrap();
    let values: Vec<_> = (0..N).map(|_| Fr::rand(&mut rng)).collect();
    let transformed = Radix2EvaluationDomain::<Fr>::new(N).unwrap().fft(&values);
    let sum = G1Projective::msm(&points, &values).unwrap();

    let mut program = ProgramBuilder::new();
    let input = program.input(N as u64).unwrap();
    let output = program.ntt(input, NttTransform::forward()).unwrap();
    let transform = program.build().unwrap();
    let mut program = ProgramBuilder::new();
    let scalars = program.input(N as u64).unwrap();
    let sums = program.msm(&bases, scalars).unwrap();
    let msm = program.build().unwrap();
    // Each vector is pinned, and unpinned when it is dropped.
    for verify in [Verification::None, Verification::Probabilistic, Verification::None] {
        let options = || RunOptions { verify, ..RunOptions::default() };
        let mut vector = client.alloc_vector(N).unwrap();
        assert!(vector.is_shared());
        vector.copy_from_slice(&values);
        let run = ProgramRun::new(&msm).input(scalars, &vector).send_points(sums);
        let result = client.run_with(run, options()).unwrap();
        assert_eq!(result.points(sums).unwrap(), [sum]);
        assert_eq!(result.execution.engine, "cuda");
        let run = ProgramRun::new(&transform).in_place(input, output, vector);
        let mut result = client.run_with(run, options()).unwrap();
        assert_eq!(result.execution.engine, "cuda");
        assert!(result.take_vector(output).unwrap()[..] == transformed, "{verify:?}");
    }
    drop(client);
    stop(child);
}

/// With a check, the job reads a copy, which must not be made before the client has written.
#[test]
fn checked_transforms_on_the_gpu_read_what_the_client_wrote_during_the_call() {
    const STAGED: usize = 1 << 12;
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("capstan.sock").display().to_string();
    let (child, _) = start(&["--engine", "cuda", "--unix-socket", &socket], &[]);
    let client = BlockingClient::connect(format!("unix:{socket}")).unwrap();
    let mut rng = StdRng::seed_from_u64(5);
    let domain = Radix2EvaluationDomain::<Fr>::new(STAGED).unwrap();
    let is_shared = || client.info().unwrap().load.is_some_and(|load| load.region_bytes > 0);
    let mut transform = |verify| {
        let values: Vec<_> = (0..STAGED).map(|_| Fr::rand(&mut rng)).collect();
        let mut transformed = values.clone();
        let options = NttOptions { verify, ..NttOptions::default() };
        let report = client.ntt(&mut transformed, options).unwrap();
        assert_eq!(report.execution.engine, "cuda");
        assert!(transformed == domain.fft(&values), "{verify:?}");
    };
    // The first payloads travel in messages.
    while !is_shared() {
        transform(Verification::None);
    }
    for _ in 0..4 {
        transform(Verification::Probabilistic);
        transform(Verification::None);
    }
    drop(client);
    stop(child);
}
