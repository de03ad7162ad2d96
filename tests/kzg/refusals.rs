//! Wrong arguments are refused before anything is sent.

use capstan::{
    client::{Fr, G1Affine, G2Affine},
    kzg::{KzgProver, KzgVerifier},
};

use crate::kzg::{KzgFixture, LENGTH, POINTS};

fn message<T, E: ToString>(refused: Result<T, E>) -> String {
    refused.err().map_or("accepted".to_owned(), |error| error.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_arguments_of_the_prover_are_named() {
    let mut fixture = KzgFixture::new().await;
    let (short, long) = (fixture.polynomial(2), fixture.polynomial(LENGTH + 1));
    let prover = KzgProver::new(&fixture.client, &fixture.key);
    let none: [&Vec<Fr>; 0] = [];
    assert_eq!(message(prover.commit(none).await), "polynomials: is required");
    let many = vec![&short; 257];
    let refused = message(prover.commit(many).await);
    assert_eq!(refused, "polynomials: too long: at most 256, got 257");
    let refused = message(prover.commit([&short, &long]).await);
    assert_eq!(refused, "polynomial: too long: at most 40, got 41");
    let refused = message(prover.open_batch([&short], &[], Fr::from(1)).await);
    assert_eq!(refused, "points: is required");
    assert_eq!(message(prover.evaluate([&short], &[]).await), "points: is required");
    let equal = [Fr::from(3), Fr::from(4), Fr::from(3)];
    let refused = message(prover.open_batch([&short], &equal, Fr::from(1)).await);
    assert_eq!(refused, "points: repeats an earlier element");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_arguments_of_the_verifier_are_named() {
    let fixture = KzgFixture::new().await;
    let (one, point) = (Fr::from(1), G1Affine::identity());
    let verify = |commitments: usize, points: &[Fr], values: &[Vec<Fr>]| {
        let commitments = vec![point; commitments];
        message(fixture.verifier.verify_batch(&commitments, points, values, one, point))
    };
    assert_eq!(verify(1, &[], &[vec![]]), "points: is required");
    assert_eq!(verify(0, &[one], &[]), "commitments: is required");
    assert_eq!(verify(1, &[one, one], &[vec![one; 2]]), "points: repeats an earlier element");
    assert_eq!(verify(2, &[one], &[vec![one]]), "values: wrong length: expected 2, got 1");
    assert_eq!(verify(1, &[one], &[vec![]]), "values: wrong length: expected 1, got 0");
    let points: Vec<_> = (0..=POINTS as u64).map(Fr::from).collect();
    let values = [vec![one; points.len()]];
    assert_eq!(verify(1, &points, &values), "points: too long: at most 4, got 5");
    let g2 = [G2Affine::identity()];
    assert_eq!(message(KzgVerifier::new(&[point], &g2)), "powers of tau: is required");
}
