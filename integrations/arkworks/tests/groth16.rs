//! Unmodified ark-groth16 with a pinned key.

mod common;

use std::time::Duration;

use ark_bls12_381::{Bls12_381, Fr};
use ark_groth16::{Groth16, Proof, ProvingKey, VerifyingKey};
use ark_snark::{CircuitSpecificSetupSNARK, SNARK};
use ark_std::{
    UniformRand,
    rand::{SeedableRng, rngs::StdRng},
};
use capstan_arkworks::{Counts, OffloadOptions};
use common::{counted, offload_to, only_local, only_offloaded, squarings::Squarings, turn};

/// Queries of at least 4096 points, so that all five MSMs of a proof are sent by default.
const ROUNDS: usize = 5000;
const MSMS: u64 = 5;

struct Statement {
    circuit: Squarings,
    pk: ProvingKey<Bls12_381>,
    vk: VerifyingKey<Bls12_381>,
    r: Fr,
    s: Fr,
}

fn statement(rounds: usize) -> Statement {
    let mut rng = StdRng::seed_from_u64(16);
    let circuit = Squarings::new(rounds, Fr::rand(&mut rng));
    let (pk, vk) = Groth16::<Bls12_381>::setup(circuit.clone(), &mut rng).unwrap();
    Statement { circuit, pk, vk, r: Fr::rand(&mut rng), s: Fr::rand(&mut rng) }
}

impl Statement {
    /// The same proof each time: its blinding is fixed.
    fn prove(&self) -> Proof<Bls12_381> {
        let circuit = self.circuit.clone();
        Groth16::<Bls12_381>::create_proof_with_reduction(circuit, &self.pk, self.r, self.s)
            .unwrap()
    }

    fn is_proved_by(&self, proof: &Proof<Bls12_381>) -> bool {
        Groth16::<Bls12_381>::verify(&self.vk, &[self.circuit.result()], proof).unwrap()
    }
}

#[test]
fn a_pinned_key_gives_the_same_proof_with_all_msms_on_the_server() {
    let _turn = turn();
    let server = common::server();
    let statement = statement(ROUNDS);
    let offload = offload_to(&server, OffloadOptions::default());

    let (local, counts) = counted(|| statement.prove());
    assert_eq!(counts, only_local(MSMS));
    assert!(statement.is_proved_by(&local));

    let pinned = offload.pin(&statement.pk).unwrap();
    let (offloaded, counts) = counted(|| statement.prove());
    assert_eq!(counts, only_offloaded(MSMS));
    assert_eq!(offloaded, local);
    assert!(statement.is_proved_by(&offloaded));

    drop(pinned);
    let (local, counts) = counted(|| statement.prove());
    assert_eq!(counts, only_local(MSMS));
    assert_eq!(offloaded, local);
}

#[test]
fn a_proof_is_made_locally_after_the_server_has_stopped() {
    let _turn = turn();
    let server = common::server();
    let statement = statement(200);
    let offload = offload_to(&server, common::all_sizes());
    let _pinned = offload.pin(&statement.pk).unwrap();
    let (first, counts) = counted(|| statement.prove());
    assert_eq!(counts, only_offloaded(MSMS));
    server.stop();

    let (second, counts) = counted(|| statement.prove());
    assert_eq!(counts, Counts { offloaded: 0, local: MSMS - 1, failed: 1 });
    assert_eq!(first, second);
    assert!(statement.is_proved_by(&second));
}

#[test]
fn every_msm_asks_the_server_again_without_a_pause() {
    let _turn = turn();
    let server = common::server();
    let statement = statement(100);
    let options = OffloadOptions { pause: Duration::ZERO, ..common::all_sizes() };
    let offload = offload_to(&server, options);
    let _pinned = offload.pin(&statement.pk).unwrap();
    server.stop();
    let (proof, counts) = counted(|| statement.prove());
    assert_eq!(counts, Counts { offloaded: 0, local: 0, failed: MSMS });
    assert!(statement.is_proved_by(&proof));
}

#[test]
fn a_proof_is_right_on_a_thread_of_an_async_runtime() {
    let _turn = turn();
    let server = common::server();
    let statement = statement(100);
    let offload = offload_to(&server, common::all_sizes());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (proof, counts) = runtime.block_on(async {
        let _pinned = offload.pin(&statement.pk).unwrap();
        let proved = counted(|| statement.prove());
        // The last user of the client is `_pinned`, which is dropped here.
        drop(offload);
        proved
    });
    assert_eq!(counts, only_offloaded(MSMS));
    assert!(statement.is_proved_by(&proof));
}
