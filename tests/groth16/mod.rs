//! Groth16 proofs of a server: the same bytes as ark-groth16's, and what is refused.

mod circuit;
mod files;
mod merkle;
mod proofs;
mod refusals;

use crate::example_support as common;

use ark_bls12_381::Bls12_381;
use ark_groth16::{Groth16, ProvingKey};
use ark_relations::gr1cs::ConstraintSynthesizer;
use ark_std::rand::{SeedableRng, rngs::StdRng};
use capstan::{
    client::{Client, Fr},
    groth16::{Groth16Key, SynthesizedCircuit, synthesize},
};
use circuit::{Counted, Failing, Powers, PublicProduct};
use common::{TestServer, server};

type ArkProver = Groth16<Bls12_381>;

/// A server with the key of a circuit.
struct ProofFixture {
    _server: TestServer,
    client: Client,
    proving_key: ProvingKey<Bls12_381>,
    key: Groth16Key,
    random: StdRng,
}

impl ProofFixture {
    async fn new(circuit: impl ConstraintSynthesizer<Fr> + Copy) -> Self {
        let server = server();
        let client = Client::connect(&server.target).await.unwrap();
        let mut random = StdRng::seed_from_u64(5);
        let proving_key = proving_key(circuit, &mut random);
        let SynthesizedCircuit { matrices, .. } = synthesize(circuit).unwrap();
        let key = Groth16Key::register(&client, &proving_key, matrices).await.unwrap();
        Self { _server: server, client, proving_key, key, random }
    }
}

fn proving_key(
    circuit: impl ConstraintSynthesizer<Fr>,
    random: &mut StdRng,
) -> ProvingKey<Bls12_381> {
    ArkProver::generate_random_parameters_with_reduction(circuit, random).unwrap()
}
