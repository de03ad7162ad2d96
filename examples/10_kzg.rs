//! Lesson 10: KZG commitments. The server commits to polynomials and opens them, each in one call;
//! the verifier checks the openings by pairings and needs no server.
//!
//! `cargo run --release --example 10_kzg`

mod common;

use capstan::{
    client::{Client, Fr, G1Affine, G2Affine},
    curve::points,
    formats::kzg,
    kzg::{KzgKey, KzgPolynomial, KzgProver, KzgVerifier},
};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// The powers of tau of Ethereum's ceremony: 4096 in G1, 65 in G2.
const SETUP: &str = include_str!("../tests/data/trusted_setup_4096.json");

#[tokio::main]
async fn main() -> Outcome<()> {
    let [g1, _lagrange, g2] =
        kzg::parse_json(SETUP.as_bytes())?.try_into().map_err(|_| "a list is missing")?;
    let g1 = points::decode::<G1Affine>(g1.encoding, &g1.data)?;
    let g2 = points::decode::<G2Affine>(g2.encoding, &g2.data)?;

    let server = common::server();
    let client = Client::connect(&server.target).await?;
    let key = KzgKey::register(&client, &g1).await?;
    let prover = KzgProver::new(&client, &key);
    let verifier = KzgVerifier::new(&g1, &g2)?;

    // One polynomial, one point, one call.
    let f = common::scalars(4096);
    let [z, challenge] = common::scalars(2)[..] else { unreachable!("two scalars") };
    let (commitment, opening) = prover.commit_and_open(&f, z).await?;
    assert!(verifier.verify(commitment, z, opening.value, opening.proof)?);
    assert!(!verifier.verify(commitment, z, opening.value + Fr::from(1), opening.proof)?);
    println!("f(z) = {}", opening.value);

    // Two polynomials, three points, one proof. The coefficients travel once: the server keeps them
    // for the calls that follow.
    let g = common::scalars(1000);
    let kept = [client.put_vector(&f).await?, client.put_vector(&g).await?];
    let polynomials = || kept.iter().map(KzgPolynomial::from);
    let at = [1, 2, 3].map(Fr::from);
    let commitments = prover.commit(polynomials()).await?;
    let values = prover.evaluate(polynomials(), &at).await?;
    // Real provers hash the challenge from commitments, points and values.
    let proof = prover.open_batch(polynomials(), &at, challenge).await?;
    assert!(verifier.verify_batch(&commitments, &at, &values, challenge, proof)?);
    println!("one proof of six values: {proof}");
    for vector in kept {
        client.release_vector(vector.id).await?;
    }
    Ok(())
}
