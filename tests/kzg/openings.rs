//! Openings that the verifier accepts, and wrong ones that it refuses.

use ark_ec::{AffineRepr, CurveGroup};
use ark_std::UniformRand;
use capstan::{
    client::{Fr, G1Affine, RunOptions, Verification},
    engine::{Engine, EngineOptions},
    kzg::{KzgKey, KzgOpening, KzgPolynomial, KzgProver},
};

use crate::kzg::{KzgFixture, LENGTH, POINTS, evaluate};

#[tokio::test(flavor = "multi_thread")]
async fn one_polynomial_is_opened_at_one_point() {
    let mut fixture = KzgFixture::new().await;
    for length in [1, 2, 17, LENGTH] {
        let f = fixture.polynomial(length);
        let z = Fr::rand(&mut fixture.random);
        let options = RunOptions { verify: Verification::Full, ..RunOptions::default() };
        let prover = KzgProver::new(&fixture.client, &fixture.key).with_options(options);
        let (commitment, opening) = prover.commit_and_open(&f, z).await.unwrap();
        assert_eq!(commitment, fixture.commitment(&f), "{length}");
        assert_eq!(opening.value, evaluate(&f, z));
        assert_eq!(prover.open(&f, z).await.unwrap(), opening);
        assert_eq!(prover.commit([&f]).await.unwrap(), [commitment]);

        let KzgOpening { value, proof } = opening;
        let verifies =
            |point, value, proof| fixture.verifier.verify(commitment, point, value, proof).unwrap();
        assert!(verifies(z, value, proof));
        assert!(!verifies(z, value + Fr::from(1), proof));
        assert!(length == 1 || !verifies(z + Fr::from(1), value, proof));
        assert!(!verifies(z, value, (proof + G1Affine::generator()).into_affine()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_in_this_process_opens_the_same() {
    let mut fixture = KzgFixture::new().await;
    let options = EngineOptions { threads: 2, gpus: false, ..EngineOptions::default() };
    let engine = Engine::with(options).unwrap();
    let key = KzgKey::register(&engine, &fixture.powers).await.unwrap();
    let prover = KzgProver::new(&engine, &key);
    let polynomials: Vec<_> = [3, LENGTH].map(|n| fixture.polynomial(n)).into();
    let z = Fr::rand(&mut fixture.random);
    let of_server = KzgProver::new(&fixture.client, &fixture.key);
    let opened = of_server.commit_and_open(&polynomials[1], z).await.unwrap();
    assert_eq!(prover.commit_and_open(&polynomials[1], z).await.unwrap(), opened);
    let points = [z, Fr::from(1)];
    let values = prover.evaluate(&polynomials, &points).await.unwrap();
    assert_eq!(values, of_server.evaluate(&polynomials, &points).await.unwrap());
    let proof = prover.open_batch(&polynomials, &points, z).await.unwrap();
    assert_eq!(proof, of_server.open_batch(&polynomials, &points, z).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn polynomials_of_different_lengths_are_opened_at_several_points() {
    let mut fixture = KzgFixture::new().await;
    let polynomials: Vec<_> = [3, LENGTH, 1, 20].map(|n| fixture.polynomial(n)).into();
    let challenge = Fr::rand(&mut fixture.random);
    for count in 1..=POINTS {
        let mut points = fixture.polynomial(count - 1);
        points.push(Fr::from(0));
        for chosen in [&polynomials[..], &polynomials[1..2]] {
            let prover = KzgProver::new(&fixture.client, &fixture.key);
            let commitments = prover.commit(chosen).await.unwrap();
            let values = prover.evaluate(chosen, &points).await.unwrap();
            for (polynomial, values) in chosen.iter().zip(&values) {
                let expected: Vec<_> = points.iter().map(|at| evaluate(polynomial, *at)).collect();
                assert_eq!(values, &expected);
            }
            let proof = prover.open_batch(chosen, &points, challenge).await.unwrap();
            let verifies = |values: &[Vec<Fr>], challenge| {
                let verifier = &fixture.verifier;
                verifier.verify_batch(&commitments, &points, values, challenge, proof).unwrap()
            };
            assert!(verifies(&values, challenge));
            assert_eq!(verifies(&values, challenge + Fr::from(1)), chosen.len() == 1);
            for polynomial in 0..chosen.len() {
                let mut wrong = values.clone();
                wrong[polynomial][count - 1] += Fr::from(1);
                assert!(!verifies(&wrong, challenge));
            }
        }
    }
}

/// The coefficients are sent once, and named in both calls.
#[tokio::test(flavor = "multi_thread")]
async fn polynomials_on_the_server_are_opened() {
    let mut fixture = KzgFixture::new().await;
    let (f, g, z) = (fixture.polynomial(12), fixture.polynomial(30), Fr::from(9));
    let kept = [
        fixture.client.put_vector(&f).await.unwrap(),
        fixture.client.put_vector(&g).await.unwrap(),
    ];
    let prover = KzgProver::new(&fixture.client, &fixture.key);
    let polynomials = || kept.iter().map(KzgPolynomial::from);
    let commitments = prover.commit(polynomials()).await.unwrap();
    assert_eq!(commitments, [fixture.commitment(&f), fixture.commitment(&g)]);
    let values = prover.evaluate(polynomials(), &[z]).await.unwrap();
    let challenge = Fr::from(77);
    let proof = prover.open_batch(polynomials(), &[z], challenge).await.unwrap();
    let verified = fixture.verifier.verify_batch(&commitments, &[z], &values, challenge, proof);
    assert!(verified.unwrap());
    for vector in kept {
        fixture.client.release_vector(vector.id).await.unwrap();
    }
}
