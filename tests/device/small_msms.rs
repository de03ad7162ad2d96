//! Small MSMs of many clients over the same bases: a daemon with GPUs computes those that wait for
//! a worker in batches.

use std::{sync::Barrier, thread};

use ark_ec::{CurveGroup as _, VariableBaseMSM as _};
use ark_ff::{PrimeField as _, UniformRand as _};
use ark_std::rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use capstan::{
    client::{BasesHandle, MsmOptions, ScalarInput, Verification, blocking::BlockingClient},
    curve::{Fr, G1Affine, G1Projective, scalars::ScalarEncoding},
};

use crate::daemon::{MeasuredDaemon, metric, start_with_metrics, stop};

const N: usize = 70;
const CLIENTS: u64 = 8;
const CALLS: usize = 3;

fn sums(points: &[G1Affine], scalars: &[Fr]) -> Vec<G1Projective> {
    let n = points.len();
    scalars.chunks(n).map(|scalars| G1Projective::msm(points, scalars).unwrap()).collect()
}

fn call(client: &BlockingClient, bases: &BasesHandle<G1Affine>, points: &[G1Affine], seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    // Clients use two ranges of the bases, which are two batches.
    let n = N - seed as usize % 2;
    for call in 0..CALLS {
        let batch = 1 + call;
        let scalars: Vec<_> = (0..n * batch).map(|_| Fr::rand(&mut rng)).collect();
        let verify = [Verification::None, Verification::Probabilistic][call % 2];
        let options = MsmOptions { batch: batch as u32, verify, ..MsmOptions::default() };
        let range = bases.slice(0, n as u64).unwrap();
        let done = client.msm_with(&range, &scalars, options).unwrap();
        assert_eq!(done.points, sums(&points[..n], &scalars));
        assert_eq!((done.execution.engine.as_str(), done.execution.verified), ("cuda", verify));
    }
    let range = bases.slice(0, n as u64).unwrap();
    let narrow: Vec<_> = (0..n).map(|_| rng.r#gen::<i16>()).collect();
    let bytes: Vec<_> = narrow.iter().flat_map(|scalar| scalar.to_le_bytes()).collect();
    let scalars = ScalarInput::Bytes { encoding: ScalarEncoding::Signed(2), bytes: &bytes };
    let done = client.msm_with(&range, scalars, MsmOptions::default()).unwrap();
    let narrow: Vec<_> = narrow.into_iter().map(Fr::from).collect();
    assert_eq!(done.points, sums(&points[..n], &narrow));
    // One client has a scalar that is refused, another one has it reduced.
    let mut bytes = vec![0; 32 * n];
    bytes[32 * 9..32 * 10].fill(0xff);
    let reduce = seed != 0;
    let scalars = ScalarInput::Bytes { encoding: ScalarEncoding::Canonical, bytes: &bytes };
    let done = client.msm_with(&range, scalars, MsmOptions { reduce, ..MsmOptions::default() });
    if reduce {
        let scalar = Fr::from_le_bytes_mod_order(&[0xff; 32]);
        assert_eq!(done.unwrap().points, [points[9] * scalar]);
    } else {
        let error = done.unwrap_err().to_string();
        assert!(error.contains("scalars[9]"), "{error}");
    }
}

#[test]
fn small_msms_of_many_clients_are_computed_in_batches() {
    let flags = ["--engine", "cuda", "--workers", "1"];
    let MeasuredDaemon { child, target, metrics } = start_with_metrics(&flags, &[]);
    let mut rng = StdRng::seed_from_u64(1);
    let points: Vec<_> = (0..N).map(|_| G1Projective::rand(&mut rng)).collect();
    let points = G1Projective::normalize_batch(&points);
    let bases = BlockingClient::connect(&target).unwrap().put_bases(&points).unwrap();
    let all_connected = Barrier::new(CLIENTS as usize);
    thread::scope(|scope| {
        for seed in 0..CLIENTS {
            let (points, bases, target) = (&points, &bases, &target);
            let all_connected = &all_connected;
            scope.spawn(move || {
                let client = BlockingClient::connect(target).unwrap();
                all_connected.wait();
                call(&client, bases, points, seed);
            });
        }
    });
    assert!(metric(metrics, "capstan_batched_jobs_total") >= 2);
    stop(child);
}
