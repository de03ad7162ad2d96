//! Groth16 proofs that workers compute.

use ark_bls12_381::Bls12_381;
use ark_groth16::Groth16;
use ark_relations::gr1cs::ConstraintSynthesizer;
use ark_std::rand::{SeedableRng, rngs::StdRng};
use capstan::{
    client::{Client, Fr},
    groth16::{Groth16Key, Groth16Prover, synthesize},
};
use tokio::runtime::Runtime;

use crate::{
    circuit::{Powers, PublicProduct},
    shared::spread_server,
};

/// Proofs on this many GPUs equal those of ark-groth16.
fn check(devices: usize, circuit: impl ConstraintSynthesizer<Fr> + Copy) {
    let Some(spread) = spread_server(devices) else { return };
    Runtime::new().unwrap().block_on(async {
        let random = || StdRng::seed_from_u64(5);
        let key =
            Groth16::<Bls12_381>::generate_random_parameters_with_reduction(circuit, &mut random());
        let key = key.unwrap();
        let expected =
            Groth16::<Bls12_381>::create_random_proof_with_reduction(circuit, &key, &mut random());
        let client = Client::connect(&spread.server.target).await.unwrap();
        let synthesized = synthesize(circuit).unwrap();
        let key = Groth16Key::register(&client, &key, synthesized.matrices).await.unwrap();
        let prover = Groth16Prover::new(&client, &key).with_check();
        let assignment = synthesized.assignment.clone();
        let proved = prover.prove_with_report(assignment, &mut random()).await.unwrap();
        assert_eq!(proved.proof, expected.unwrap());
        assert_eq!(proved.execution.engine, "cuda");
        let several = vec![synthesized.assignment; 2];
        let proofs = prover.prove_batch(several, &mut random()).await.unwrap();
        assert_eq!(proofs[0], proved.proof);
    });
}

#[test]
fn a_worker_computes_the_proofs_of_ark_groth16() {
    check(1, Powers::new(7, 60, 9));
}

#[test]
fn a_worker_proves_a_circuit_without_private_variables() {
    check(1, PublicProduct::new(6, 7));
}

#[test]
fn two_workers_compute_the_proofs_of_ark_groth16() {
    check(2, Powers::new(7, 60, 9));
}
