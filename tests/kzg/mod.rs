//! KZG commitments and openings of a server, checked by pairings and against arkworks.

mod openings;
mod refusals;

use crate::example_support as common;

use ark_ec::{CurveGroup, PrimeGroup};
use ark_std::{
    UniformRand,
    rand::{SeedableRng, rngs::StdRng},
};
use capstan::{
    client::{Client, Fr, G1Affine, G1Projective, G2Affine},
    kzg::{KzgKey, KzgVerifier},
};
use common::{TestServer, server};

/// The most coefficients.
const LENGTH: usize = 40;
/// The most points of an opening.
const POINTS: usize = 4;

/// A server with a key, and the verifier that belongs to it.
struct KzgFixture {
    _server: TestServer,
    client: Client,
    key: KzgKey,
    powers: Vec<G1Affine>,
    verifier: KzgVerifier,
    random: StdRng,
}

impl KzgFixture {
    async fn new() -> Self {
        let server = server();
        let client = Client::connect(&server.target).await.unwrap();
        let mut random = StdRng::seed_from_u64(7);
        let tau = Fr::rand(&mut random);
        let powers = powers_of::<G1Affine>(tau, LENGTH);
        let verifier = KzgVerifier::new(&powers[..POINTS], &powers_of::<G2Affine>(tau, POINTS + 1));
        let key = KzgKey::register(&client, &powers).await.unwrap();
        Self { _server: server, client, key, powers, verifier: verifier.unwrap(), random }
    }

    fn polynomial(&mut self, length: usize) -> Vec<Fr> {
        (0..length).map(|_| Fr::rand(&mut self.random)).collect()
    }

    fn commitment(&self, polynomial: &[Fr]) -> G1Affine {
        let products = polynomial.iter().zip(&self.powers).map(|(c, power)| *power * c);
        products.sum::<G1Projective>().into_affine()
    }
}

fn powers_of<A: ark_ec::AffineRepr<ScalarField = Fr>>(tau: Fr, count: usize) -> Vec<A> {
    let powers = std::iter::successors(Some(Fr::from(1)), |power| Some(*power * tau)).take(count);
    let points: Vec<_> = powers.map(|power| A::Group::generator() * power).collect();
    A::Group::normalize_batch(&points)
}

fn evaluate(polynomial: &[Fr], point: Fr) -> Fr {
    polynomial.iter().rev().fold(Fr::from(0), |sum, coefficient| sum * point + coefficient)
}
