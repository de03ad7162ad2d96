//! A commitment and an opening of a polynomial, in one call.

use std::time::Instant;

use ark_ec::{AffineRepr, CurveGroup, PrimeGroup, scalar_mul::BatchMulPreprocessing};
use ark_ff::{One, UniformRand};
use ark_std::rand::{SeedableRng, rngs::StdRng};
use capstan::{
    client::{Client, Fr, G1Affine, G1Projective, G2Affine},
    kzg::{KzgKey, KzgPolynomial, KzgProver, KzgVerifier},
};

use crate::{
    record::{ProofRecord, ProofRuns},
    support::Samples,
};

/// Measures commitments and openings of polynomials of 2^`lg_n` coefficients.
pub async fn measure(client: &Client, lg_n: u32, runs: ProofRuns, record: &ProofRecord) {
    let mut random = StdRng::seed_from_u64(4);
    let (n, tau) = (1 << lg_n, Fr::rand(&mut random));
    let powers: Vec<_> =
        std::iter::successors(Some(Fr::one()), |power| Some(*power * tau)).take(n).collect();
    let powers: Vec<G1Affine> =
        BatchMulPreprocessing::new(G1Projective::generator(), n).batch_mul(&powers);
    let in_g2 = [G2Affine::generator(), (G2Affine::generator() * tau).into_affine()];
    let verifier = KzgVerifier::new(&powers[..1], &in_g2).expect("powers of tau");
    let key = KzgKey::register(client, &powers).await.expect("a key");
    let prover = KzgProver::new(client, &key);
    let polynomial: Vec<_> = (0..n).map(|_| Fr::rand(&mut random)).collect();
    let mut shared = client.alloc_vector(n).await.expect("memory");
    shared.copy_from_slice(&polynomial);
    println!("2^{lg_n} coefficients: commitment and opening");
    for (mode, given) in [
        // In memory that the server shares, and copied there during the call.
        ("call_region", KzgPolynomial::from(&shared)),
        ("call_unix", KzgPolynomial::from(&polynomial)),
    ] {
        let mut times = Samples::default();
        for run in 0..runs.all() {
            let point = Fr::rand(&mut random);
            let begun = Instant::now();
            let opened = prover.commit_and_open(given.clone(), point).await.expect("an opening");
            if run >= runs.warm_up {
                times.0.push(begun.elapsed());
            }
            let (commitment, opening) = opened;
            let verifies = verifier.verify(commitment, point, opening.value, opening.proof);
            assert!(verifies.expect("one point"), "an opening that does not verify");
        }
        record.add("kzg_open", &record.on_devices(mode.to_owned()), lg_n, 1, &times);
    }
}
